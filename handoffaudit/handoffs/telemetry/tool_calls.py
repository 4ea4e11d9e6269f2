"""Tool results in spans: what a tool returned becomes a result of its trace, with the grade of the sender's key."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from typing import Final

from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from handoffaudit.accounts.keys import KeyIdentity
from handoffaudit.handoffs import tool_results
from handoffaudit.handoffs.ingest.store import write_turn
from handoffaudit.handoffs.models import ToolResult
from handoffaudit.handoffs.tool_results import ToolResultIn
from handoffaudit.validation.formats.telemetry import moment_of
from handoffaudit.validation.telemetry import outputs
from handoffaudit.validation.telemetry.facts import Span
from handoffaudit.validation.telemetry.handoff_rules import Found, acting_agent
from handoffaudit.validation.telemetry.trees import Tree
from handoffaudit.validation.text import trace_name

# The newest results of a trace are taken, because masking them takes longer than storing handoffs.
_MOST_RESULTS: Final = 200
_MOST_CHARACTERS: Final = 2 * 1024 * 1024


def store_results(
    tenant_id: int, tree: Tree, found: Iterable[Found], traces: set[str], keys: dict[int, KeyIdentity]
) -> None:
    """Store the results of the tools in some traces that are new."""
    by_sender: dict[tuple[str, int], list[ToolResultIn]] = defaultdict(list)
    spans = [span for span in _list_calls(tree, found) if span.trace_id in traces and span.sender in keys]
    for span in _take_newest(spans):
        agent = acting_agent(tree, span)
        if keys[span.sender].agents.allows(agent) and (result := _read_result(span, agent)):
            by_sender[(trace_name(tree.conversation_of(span)), span.sender)].append(result)
    now = timezone.now()
    for (trace_id, sender), some in sorted(by_sender.items()):
        stored = ToolResult.objects.filter(tenant=tenant_id, trace_id=trace_id)
        known = set(stored.filter(call_id__in=[one.call_id for one in some]).values_list("call_id", flat=True))
        key = keys[sender]
        rows = tool_results.make_rows(tenant_id, trace_id, [one for one in some if one.call_id not in known], now)
        if rows:
            with write_turn(), transaction.atomic():
                tool_results.store(sorted(rows, key=lambda row: row.call_id), key.name, key.grade, now)


def _take_newest(spans: list[Span]) -> list[Span]:
    sizes = accumulate(len(span.facts.result) for span in reversed(spans))
    number = sum(size <= _MOST_CHARACTERS for size in islice(sizes, _MOST_RESULTS))
    return spans[len(spans) - number :]


def _list_calls(tree: Tree, found: Iterable[Found]) -> Iterator[Span]:
    """Yield the spans of tools that returned something.

    Handoffs are no tool calls, and what an LLM or an agent below a tool says is no evidence.
    """
    left_out = {(one.span.trace_id, one.span.span_id) for one in found}
    for span in tree.spans:
        if span.facts.kind in ("llm", "agent"):
            left_out.update((above.trace_id, above.span_id) for above in tree.ancestors_of(span))
    below = {(one.trace_id, one.parent_id) for one in tree.spans if one.facts.kind == "tool"}
    for span in tree.spans:
        key = span.trace_id, span.span_id
        # Two instrumentations may write one call: the inner span is nearest to the tool.
        if span.facts.kind == "tool" and span.facts.result and key not in left_out and key not in below:
            yield span


def _read_result(span: Span, agent: str) -> ToolResultIn | None:
    facts = span.facts
    result = outputs.parse(facts.result)
    try:
        return ToolResultIn(
            tool=facts.tool,
            call_id=facts.call_id or f"{span.trace_id}-{span.span_id}",
            agent=agent,
            at=moment_of(span.ended),
            arguments=outputs.parse(facts.arguments) or facts.arguments or None,
            result=facts.result if result is None else result,
        )
    except ValidationError:
        # A tool without a usable name cannot be cited.
        return None
