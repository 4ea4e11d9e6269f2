"""Repeated handoffs in a trace, counted as the server counts its stored handoffs."""

from collections import Counter
from typing import NamedTuple

from handoffaudit.validation.canonical import repetition_key
from handoffaudit.validation.record import Record


class Before(NamedTuple):
    """The earlier handoffs of the trace on the same route (`same_way`), and those of them with the same data."""

    same_way: int = 0
    same_data: int = 0


class Repeats:
    """A counter that receives the handoffs of a trace in order. Handoffs without a trace repeat nothing."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, ...]] = Counter()

    def see(self, record: Record) -> Before:
        if not record.trace_id:
            return Before()
        way = (record.trace_id, record.source_agent_id, record.target_agent_id)
        content = repetition_key(record)
        data = (*way, content)
        before = Before(self._seen[way], self._seen[data] if content else 0)
        self._seen[way] += 1
        self._seen[data] += 1
        return before
