"""The rules that find handoffs in the spans of a trace, as one table in the order in which they count.

They know attributes and shapes, and no framework.
"""

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from handoffaudit.validation.telemetry import payloads
from handoffaudit.validation.telemetry.facts import Span
from handoffaudit.validation.telemetry.trees import Tree, namespace_of, slug

HANDOFF: Final = "handoff"
DELEGATION: Final = "delegation"
# The name of an agent that has none: the main thread of a run.
MAIN: Final = "main"


@dataclass(slots=True)
class Found:
    """A handoff that a rule found at a span.

    `inferred` says for source, target and data from what each was inferred, if the span does not state it. `is_settled`
    says that no later span can change the handoff, and `is_open` that a span which is still missing probably will.
    """

    rule: str
    span: Span
    source: str
    target: str
    handoff_type: str = HANDOFF
    data: dict[str, Any] = field(default_factory=dict)
    inferred: dict[str, str] = field(default_factory=dict)
    is_settled: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to find handoffs: `text` says it to people."""

    name: str
    text: str
    find: Callable[[Tree, Span], Iterator[Found]]


_TRANSFER: Final = re.compile(r"^(?:transfer|hand_?off|hand_?over)(?:_control)?(?:_back)?_to_(.+)$")
_HANDING_OUT: Final = re.compile(r"(?:^|_)(?:delegate|assign|route)(?:_(?:task|work))?_to_(.+)$")
_GENERIC: Final = frozenset(
    {"agent", "another_agent", "next_agent", "member", "members", "coworker", "co_worker", "subagent", "sub_agent"}
)
_BARE: Final = frozenset({"handoff", "hand_off", "handover", "hand_over", "transfer_control"})
_HANDING_OUT_BARE: Final = frozenset({"agent", "task", "ask_question_to_coworker", "spawn_agent", "call_agent"})


def _by_attributes(tree: Tree, span: Span) -> Iterator[Found]:
    facts = span.facts
    if facts.target or (facts.kind == "handoff" and facts.source):
        source = facts.source or (facts.agent if facts.kind == "agent" else "") or acting_agent(tree, span)
        if facts.target or source:
            yield Found("attributes", span, source, tree.name_of(facts.target), _type_of(facts.returns))
    elif facts.kind == "agent" and facts.caller and facts.agent:
        yield Found("attributes", span, facts.caller, facts.agent, DELEGATION)


def _type_of(returns: bool | None) -> str:  # noqa: FBT001 -- private
    return DELEGATION if returns else HANDOFF


def _by_metadata(_: Tree, span: Span) -> Iterator[Found]:
    if target := span.facts.destination:
        nodes = namespace_of(span)
        yield Found("metadata", span, span.facts.actor or (nodes[0] if nodes else ""), target)


def _by_tool(tree: Tree, span: Span) -> Iterator[Found]:
    facts = span.facts
    if facts.kind not in ("tool", "handoff") or not facts.tool:
        return
    tool = slug(facts.tool)
    if transfer := _TRANSFER.search(tool):
        target = "" if transfer[1] in _GENERIC else tree.name_of(transfer[1])
        yield Found("tool", span, acting_agent(tree, span), target or _named_target(tree, span))
    elif tool in _BARE:
        yield Found("tool", span, acting_agent(tree, span), _named_target(tree, span))
    elif target := _target_of_task(tree, span, tool):
        yield Found("tool", span, acting_agent(tree, span), target, DELEGATION)


def _target_of_task(tree: Tree, span: Span, tool: str) -> str:
    """Return the agent that gets a task. Such tools have names that others have as well, so it must be stated."""
    given = _HANDING_OUT.search(tool)
    if given and given[1] not in _GENERIC:
        return tree.names.get(given[1], "")
    return _named_target(tree, span) if given or tool in _HANDING_OUT_BARE else ""


def _named_target(tree: Tree, span: Span) -> str:
    """Return the agent that the arguments of a generic tool name, or an attribute."""
    return tree.name_of(payloads.target_in(span.facts.arguments) or span.facts.named)


def _by_goto(tree: Tree, span: Span) -> Iterator[Found]:
    facts = span.facts
    if not facts.goto or facts.kind == "llm":
        return
    nodes = namespace_of(span) or next((at for one in tree.ancestors_of(span) if (at := namespace_of(one))), [])
    # Without metadata, the span of a node has the node's name.
    otherwise = span.name if facts.is_command and facts.kind == "node" else ""
    source = (nodes[-2] if facts.to_parent and len(nodes) > 1 else nodes[0]) if nodes else otherwise
    for target in facts.goto:
        # A node inside an agent goes to other parts of the same agent.
        is_inside = len(nodes) > 1 and not facts.to_parent and slug(target) not in tree.names
        if slug(target) != slug(source) and not is_inside:
            yield Found("goto", span, source, target)


def _by_nesting(tree: Tree, span: Span) -> Iterator[Found]:
    if span.facts.kind == "agent" and span.facts.agent:
        source = acting_agent(tree, span, own=False)
        if source and slug(source) != slug(span.facts.agent):
            yield Found("nesting", span, source, span.facts.agent, DELEGATION)


RULES: Final[Sequence[Rule]] = (
    Rule("attributes", "attributes of the span that name the handoff", _by_attributes),
    Rule("metadata", "LangChain metadata with the destination of a handoff", _by_metadata),
    Rule("tool", "a tool that is named like a handoff", _by_tool),
    Rule("goto", "the next node in the output of a node", _by_goto),
    Rule("nesting", "the span of an agent below the span of another agent", _by_nesting),
)
RULE_TEXTS: Final = {rule.name: rule.text for rule in RULES}
INFERENCE_TEXTS: Final = {
    "next_agent": "the next agent span",
    "previous_handoff": "the handoff before it",
    "state": "the state of the run",
    "main": "the lack of an agent above it: the main agent",
    "own_name": "the agent that the span itself names",
    "llm_output": "the last LLM output before it",
}


def acting_agent(tree: Tree, span: Span, *, own: bool = True) -> str:
    """Return the agent that acts in a span: the nearest agent above it, or the agent that a tool above it called."""

    def decide(one: Span, above: str | None) -> str:
        if one.facts.kind == "agent" and one.facts.agent:
            return one.facts.agent
        target = _target_of_task(tree, one, slug(one.facts.tool)) if one.facts.kind == "tool" else ""
        return target or above or ""

    parent = tree.parent_of(span)
    found = tree.inherit(tree.acting, parent, decide) if parent else ""
    return found or (span.facts.agent if own else "")


def find_handoffs(spans: Iterable[Span]) -> list[Found]:
    """Return the handoffs that happened in the spans, in the order of their times, as far as both ends are known."""
    tree = Tree(spans)
    candidates = [found for span in tree.spans for found in _first(tree, span)]
    _infer_targets(tree, candidates)
    kept = _without_repetitions(tree, candidates)
    _infer_sources(tree, kept)
    for found in kept:
        payloads.fill(tree, found)
        _set_certainty(tree, found)
    return [found for found in kept if found.source and found.target]


def _first(tree: Tree, span: Span) -> list[Found]:
    """Return what the first rule that applies to a span finds there."""
    return next((found for rule in RULES if (found := list(rule.find(tree, span)))), [])


def _infer_targets(tree: Tree, candidates: list[Found]) -> None:
    """Take the next agent span as the target where the span names none. One agent span takes over once."""
    taken: set[tuple[str, str]] = set()
    for found in sorted(candidates, key=lambda one: one.span.started, reverse=True):
        if found.target:
            continue
        later = tree.next_agent(found.span)
        if later is not None and (later.trace_id, later.span_id) not in taken:
            taken.add((later.trace_id, later.span_id))
            if slug(later.facts.agent) == slug(found.source):
                # The agent that took over is not there, or nobody took over.
                continue
            found.target, found.inferred["target"] = later.facts.agent, "next_agent"
            is_sibling = later.parent_id and later.parent_id in _parents_above(tree, found.span)
            is_whole = is_sibling or tree.is_rooted(later)
            found.is_open = not is_whole or tree.has_orphan_between(found.span, later)


def _parents_above(tree: Tree, span: Span) -> set[str]:
    return {span.parent_id, *(one.parent_id for one in tree.ancestors_of(span))}


def _without_repetitions(tree: Tree, candidates: list[Found]) -> list[Found]:
    """Return the handoffs without those that another span states, too: a tool inside a tool, or what a tool led to.

    The earlier rule counts, and of two spans by the same rule the outer one.
    """
    order = {rule.name: position for position, rule in enumerate(RULES)}
    ranked = sorted(candidates, key=lambda one: (order[one.rule], one.span.started, -one.span.ended, one.span.span_id))
    known = _Known(tree)
    kept = [found for found in ranked if known.add(found)]
    return sorted(kept, key=lambda one: (one.span.started, one.span.span_id))


class _Known:
    """The handoffs that are known, in a form in which repetitions are found without comparing each with each."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        # By target and span: the spans of handoffs, and all spans above them.
        self._at: set[tuple[str, str, str]] = set()
        self._above: set[tuple[str, str, str]] = set()
        # By ends and a span above a handoff: rules and times, in order. The second has only the nearest span above.
        self._below: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._beside: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))

    def add(self, found: Found) -> bool:
        """Add a handoff, and return False instead if a known one is the same."""
        target, source, trace_id = slug(found.target), slug(found.source), found.span.trace_id
        above = [one.span_id for one in self._path(found)]
        here = (target, trace_id, found.span.span_id)
        if here in self._above or any((target, trace_id, one) in self._at for one in above):
            return False
        places = [(source, target, trace_id, one) for one in above]
        parent = (source, target, trace_id, found.span.parent_id)
        if self._is_led_to(found, self._below.get(parent)) or any(
            self._is_led_to(found, self._beside.get(place)) for place in places
        ):
            return False
        self._at.add(here)
        self._above.update((target, trace_id, one) for one in above)
        for place in places:
            insort(self._below[place][found.rule], found.span.started)
        insort(self._beside[parent][found.rule], found.span.started)
        return True

    def _path(self, found: Found) -> Iterator[Span]:
        """Yield the spans above a handoff, up to further work of its target."""
        for above in self._tree.ancestors_of(found.span):
            yield above
            if above.facts.kind == "agent" and slug(above.facts.agent) == slug(found.target):
                return

    def _is_led_to(self, found: Found, known: dict[str, list[int]] | None) -> bool:
        """Return whether an earlier rule found the handoff beside, and the target did not begin in between."""
        at = found.span.started
        for rule, times in (known or {}).items():
            if rule == found.rule:
                continue
            position = bisect_left(times, at)
            for other in times[max(position - 1, 0) : position + 1]:
                if not self._tree.has_started_between(found.target, min(at, other), max(at, other)):
                    return True
        return False


def _infer_sources(tree: Tree, handoffs: list[Found]) -> None:
    """Find the source where the span has no agent above it and names none."""
    holders: dict[str, str] = {}
    for found in handoffs:
        holder = holders.get(found.span.trace_id, "")
        if not found.source:
            if current := tree.current_agent(found.span):
                found.source, found.inferred["source"] = current, "state"
            elif found.handoff_type == HANDOFF and holder:
                found.source, found.inferred["source"] = holder, "previous_handoff"
            elif found.handoff_type == DELEGATION:
                found.source, found.inferred["source"] = MAIN, "main"
            found.is_open = found.is_open or not tree.is_rooted(found.span)
        if found.handoff_type == HANDOFF:
            holders[found.span.trace_id] = found.target


def _set_certainty(tree: Tree, found: Found) -> None:
    found.is_settled = not found.inferred and bool(found.data) and tree.is_rooted(found.span)
