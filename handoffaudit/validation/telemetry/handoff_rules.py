"""The rules that find handoffs in the spans of a trace, as one table in order of precedence.

The rules read attributes and the shape of the trace, and do not depend on a framework.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from handoffaudit.validation.telemetry import trees
from handoffaudit.validation.telemetry.facts import Span
from handoffaudit.validation.telemetry.trees import Tree, namespace_of, slug

HANDOFF: Final = "handoff"
DELEGATION: Final = "delegation"
# The name for the main thread of a run, which has no agent name.
MAIN: Final = "main"


@dataclass(slots=True)
class Found:
    """A handoff that a rule found at a span.

    `inferred` maps `source`, `target` and `data` to a key of `INFERENCE_TEXTS`, if the span does not state them.
    `is_settled` is true if no later span can change the handoff. `is_open` is true if a span that has not arrived yet
    will probably change the handoff.
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
    """A way to find handoffs. `text` describes the rule to people."""

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
    transfer = _TRANSFER.search(tool)
    if transfer and transfer[1] not in _GENERIC:
        if target := _target_of_transfer(tree, span, transfer[1]):
            yield Found("tool", span, acting_agent(tree, span), target)
    elif transfer or tool in _BARE:
        yield Found("tool", span, acting_agent(tree, span), _named_target(tree, span))
    elif target := _target_of_task(tree, span, tool):
        yield Found("tool", span, acting_agent(tree, span), target, DELEGATION)


def _target_of_transfer(tree: Tree, span: Span, written: str) -> str:
    """Return the agent in a tool's name if the agent is in the trace, or if the span says that the tool hands over.

    Money is transferred with tools named `transfer_to_savings`, so the name of the tool alone is not proof.
    """
    if known := tree.names.get(written):
        return known
    confirmed = trees.receiver_in(span.facts.result)
    if confirmed is not None and slug(confirmed) in ("", written):
        return confirmed or written
    return written if span.facts.kind == "handoff" or trees.is_described(span) else ""


def _target_of_task(tree: Tree, span: Span, tool: str) -> str:
    """Return the agent that the tool gives a task, or an empty text.

    Tools for other purposes have similar names, so the trace must name the agent.
    """
    given = _HANDING_OUT.search(tool)
    if given and given[1] not in _GENERIC:
        return tree.names.get(given[1], "")
    return _named_target(tree, span) if given or tool in _HANDING_OUT_BARE else ""


def _named_target(tree: Tree, span: Span) -> str:
    """Return the agent that a generic tool names in its arguments or in an attribute."""
    return tree.name_of(trees.target_in(span.facts.arguments) or span.facts.named)


def _by_goto(tree: Tree, span: Span) -> Iterator[Found]:
    facts = span.facts
    if not facts.goto or facts.kind == "llm":
        return
    nodes = namespace_of(span) or next((at for one in tree.ancestors_of(span) if (at := namespace_of(one))), [])
    # Without metadata, the span of a node has the node's name.
    otherwise = span.name if facts.is_command and facts.kind == "node" else ""
    source = (nodes[-2] if facts.to_parent and len(nodes) > 1 else nodes[0]) if nodes else otherwise
    for target in facts.goto:
        # A node inside an agent goes to other parts of the same agent, which is no handoff.
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
    "previous_handoff": "the previous handoff",
    "state": "the state of the run",
    "main": "the lack of an agent above the span",
    "llm_output": "the last LLM output before the handoff",
}


def acting_agent(tree: Tree, span: Span, *, own: bool = True) -> str:
    """Return the acting agent of a span: the nearest agent above, or the agent that a tool above called.

    With `own`, the agent that the span names is the last resort.
    """

    def decide(one: Span, above: str | None) -> str:
        if one.facts.kind == "agent" and one.facts.agent:
            return one.facts.agent
        target = _target_of_task(tree, one, slug(one.facts.tool)) if one.facts.kind == "tool" else ""
        return target or above or ""

    parent = tree.parent_of(span)
    found = tree.inherit(tree.acting, parent, decide) if parent else ""
    return found or (span.facts.agent if own else "")


def find_in(tree: Tree) -> list[Found]:
    """Return the handoffs in the spans of a tree, in order of time.

    A handoff whose source or target stays unknown is left out.
    """
    candidates = [found for span in tree.spans for found in _first(tree, span)]
    _infer_targets(tree, candidates)
    kept = _without_repetitions(tree, candidates)
    _infer_sources(tree, kept)
    for found in kept:
        trees.fill(tree, found)
        _set_certainty(tree, found)
    return [found for found in kept if found.source and found.target]


def list_calls(tree: Tree, found: Sequence[Found], ranks: Mapping[int, int]) -> list[Span]:
    """Return the spans of tools with a result: the worst rank first, and each rank in order of time.

    `ranks` maps each sender to its rank, 0 for the best. Spans of a worse rank never exclude a call of a better rank.
    """
    used = sorted({ranks[span.sender] for span in tree.spans if span.sender in ranks}, reverse=True)
    calls: list[Span] = []
    whole = tree
    for rank in used:
        if rank != used[0]:
            tree = Tree([span for span in tree.spans if ranks.get(span.sender, used[0]) <= rank])
            found = find_in(tree)
        calls += (span for span in _calls_in(tree, found) if ranks.get(span.sender) == rank)
    _tell_apart(whole, calls)
    return calls


def _tell_apart(tree: Tree, calls: Iterable[Span]) -> None:
    """Remove the id of a call if the sender's first call with this id in the conversation has another result.

    Ollama gives no ids, so frameworks make them: AutoGen gives all calls of one LLM output the same id.
    """
    first: dict[tuple[str, str, int], Span] = {}
    for span in sorted(calls, key=lambda one: (one.started, one.span_id)):
        one = first.setdefault((tree.conversation_of(span), span.facts.call_id, span.sender), span)
        if one.facts.result != span.facts.result:
            span.facts.call_id = ""


def _calls_in(tree: Tree, found: Iterable[Found]) -> Iterator[Span]:
    """Yield the spans of tools with a result.

    Handoffs are not tool calls. The result of a tool with an LLM or an agent below is not evidence.
    """
    left_out = {(one.span.trace_id, one.span.span_id) for one in found}
    for span in tree.spans:
        if span.facts.kind in ("llm", "agent"):
            left_out.update((above.trace_id, above.span_id) for above in tree.ancestors_of(span))
    below = {(one.trace_id, one.parent_id) for one in tree.spans if one.facts.kind == "tool"}
    for span in tree.spans:
        key = span.trace_id, span.span_id
        # If two instrumentations record the same call, the inner span counts, because it is nearest to the tool.
        if span.facts.kind == "tool" and span.facts.result and key not in left_out and key not in below:
            yield span


def _first(tree: Tree, span: Span) -> list[Found]:
    """Return the handoffs of the first rule that finds any at a span."""
    return next((found for rule in RULES if (found := list(rule.find(tree, span)))), [])


def _infer_targets(tree: Tree, candidates: list[Found]) -> None:
    """Set each missing target to the agent of the next agent span. An agent span is used at most once."""
    taken: set[tuple[str, str]] = set()
    for found in sorted(candidates, key=lambda one: one.span.started, reverse=True):
        if found.target:
            continue
        later = tree.next_agent(found.span)
        if later is not None and (later.trace_id, later.span_id) not in taken:
            taken.add((later.trace_id, later.span_id))
            if slug(later.facts.agent) == slug(found.source):
                # The span of the target is missing, or no agent took over.
                continue
            found.target, found.inferred["target"] = later.facts.agent, "next_agent"
            is_sibling = later.parent_id and later.parent_id in _parents_above(tree, found.span)
            is_whole = is_sibling or tree.is_rooted(later)
            found.is_open = not is_whole or tree.has_orphan_between(found.span, later)


def _parents_above(tree: Tree, span: Span) -> set[str]:
    return {span.parent_id, *(one.parent_id for one in tree.ancestors_of(span))}


def _without_repetitions(tree: Tree, candidates: list[Found]) -> list[Found]:
    """Return the handoffs without repetitions.

    A repetition is, for example, a tool inside a tool, or the agent span that a tool led to. The handoff of the earlier
    rule is kept, or, with the same rule, the handoff of the outer span.
    """
    order = {rule.name: position for position, rule in enumerate(RULES)}
    ranked = sorted(candidates, key=lambda one: (order[one.rule], one.span.started, -one.span.ended, one.span.span_id))
    known = _Known(tree)
    kept = [found for found in ranked if known.add(found)]
    return sorted(kept, key=lambda one: (one.span.started, one.span.span_id))


class _Known:
    """The known handoffs, indexed so that repetitions are found without a comparison of all pairs.

    The index has a few entries for each handoff, however deep its span is: the numbers of `Tree.subtree_of` tell which
    spans are below a span. The agent span that limits the path of a handoff (see `_path`) is a part of the keys.
    `Tree.rounds_of` defines the rounds of a target.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        # `_at` holds pairs of target and span. `_numbers` holds the sorted numbers of these spans by target and limit.
        self._at: set[tuple[str, str, str]] = set()
        self._numbers: dict[tuple[str, str, str], list[int]] = {}
        # `_below` holds the same numbers by source, target, limit, rule and round of the target. `_beside` holds the
        # rules and rounds by source, target and parent span.
        self._below: dict[tuple[str | int, ...], list[int]] = {}
        self._beside: dict[tuple[str, ...], set[tuple[str, int]]] = {}

    def add(self, found: Found) -> bool:
        """Add a handoff and return True, or return False if the handoff repeats a known handoff."""
        span, target = found.span, slug(found.target)
        path = list(self._path(span, target))
        limit = path[-1].span_id if path and _is_agent(path[-1], target) else ""
        first, last = self._tree.subtree_of(span)
        limits = (limit, span.span_id) if _is_agent(span, target) else (limit,)
        if any(_has_between(self._numbers.get((target, span.trace_id, one)), first, last) for one in limits):
            return False
        if any((target, span.trace_id, one.span_id) in self._at for one in path):
            return False
        ends = slug(found.source), target, span.trace_id
        rounds = self._tree.rounds_of(target, span.started)
        if self._is_led_to(found, ends, path, limit, rounds):
            return False
        self._at.add((target, span.trace_id, span.span_id))
        insort(self._numbers.setdefault((target, span.trace_id, limit), []), first)
        # No later rule can repeat what the last rule found.
        for number in rounds if found.rule != RULES[-1].name else ():
            insort(self._below.setdefault((*ends, limit, found.rule, number), []), first)
            self._beside.setdefault((*ends, span.parent_id), set()).add((found.rule, number))
        return True

    def _path(self, span: Span, target: str) -> Iterator[Span]:
        """Yield the spans above a handoff, up to and including the nearest span of the target agent."""
        for above in self._tree.ancestors_of(span):
            yield above
            if _is_agent(above, target):
                return

    def _is_led_to(
        self, found: Found, ends: tuple[str, str, str], path: Sequence[Span], limit: str, rounds: set[int]
    ) -> bool:
        """Return whether an earlier rule found the same handoff nearby, in the same round of the target."""
        if not path:
            return False
        earlier = takewhile(lambda rule: rule.name != found.rule, RULES)
        places = {(rule.name, number) for rule in earlier for number in rounds}
        first, last = self._tree.subtree_of(path[0])
        if any(_has_between(self._below.get((*ends, limit, *place)), first, last) for place in places):
            return True
        beside = (self._beside.get((*ends, above.span_id)) for above in path)
        return any(known and not known.isdisjoint(places) for known in beside)


def _is_agent(span: Span, agent: str) -> bool:
    return span.facts.kind == "agent" and slug(span.facts.agent) == agent


def _has_between(numbers: Sequence[int] | None, first: int, last: int) -> bool:
    """Return whether one of the sorted numbers is greater than `first` and at most `last`."""
    return numbers is not None and bisect_right(numbers, first) < bisect_right(numbers, last)


def _infer_sources(tree: Tree, handoffs: list[Found]) -> None:
    """Set each missing source to the current agent in the state of the run, if the state has one.

    Otherwise, the source of a handoff is the target of the previous handoff, if any, and the source of a delegation is
    `MAIN`.
    """
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
