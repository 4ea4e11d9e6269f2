"""The handoffs of a trace as far as it matters where a value came from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.validation.layers.grounding import sources_of
from handoffaudit.validation.layers.grounding.bringing import brings_facts, puts_out
from handoffaudit.validation.layers.grounding.sources import leaves
from handoffaudit.validation.record import Record

LONGEST_DATA: Final = 100_000
LONGEST_CONTEXT: Final = 300_000
_TOLD: Final = frozenset({"warning", "error", "critical"})
# what the layers call the value that a finding is about
_VALUES: Final = ("text", "quote")
_CUT: Final = "…"
# nobody is behind it that a model was not there to be asked
_NOT_ASKED: Final = "semantic.unavailable"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A finding. `value` is what is wrong, as it is written there; empty where the finding is about no value."""

    code: str
    path: str
    value: str = ""
    severity: str = "warning"


@dataclass(frozen=True, slots=True)
class Step:
    """One handoff of a trace. `data` and `context` are all texts and numbers of its data, and of its context and
    evidence, one a line. `brings_facts`: its source is a person or a tool, or all it says is a program's output; its
    values come from outside then."""

    key: str
    source: str
    target: str
    data: str
    context: str = ""
    flaws: tuple[Flaw, ...] = ()
    brings_facts: bool = False


def step_of(key: str, record: Record, flaws: Sequence[Flaw] = ()) -> Step:
    """Of a long handoff the first 100,000 characters of its data and 300,000 of its context count."""
    return Step(
        key=key,
        source=record.source_agent_id,
        target=record.target_agent_id,
        data=_joined((source.text for source in leaves(record.data, "")), LONGEST_DATA),
        context=_joined((source.text for source in sources_of(record)), LONGEST_CONTEXT),
        flaws=tuple(flaws),
        brings_facts=brings_facts(record) is not None or puts_out(record),
    )


def _joined(texts: Iterable[str], most: int) -> str:
    kept, room = [], most
    for text in texts:
        if room <= 0:
            break
        kept.append(text[:room])
        room -= len(text) + 1
    return "\n".join(kept)


def flaws_of(issues: Iterable[Mapping[str, Any]]) -> tuple[Flaw, ...]:
    """The warnings and worse of a verdict's issues, as the API shows them, but for those that say nothing of it."""
    return tuple(
        Flaw(str(issue["code"]), str(issue.get("field_path") or ""), _value(issue), str(issue["severity"]))
        for issue in issues
        if issue.get("severity") in _TOLD and issue["code"] != _NOT_ASKED
    )


def _value(issue: Mapping[str, Any]) -> str:
    metadata = issue.get("metadata") or {}
    found = next((metadata[name] for name in _VALUES if isinstance(metadata.get(name), str)), "")
    # of a value that was cut, the last word may not be whole
    return found[:-1].rpartition(" ")[0] or found[:-1] if found.endswith(_CUT) else found
