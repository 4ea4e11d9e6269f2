"""The spans of a trace as trees, the agents that act in the spans, and the payload of a handoff.

The payload is the arguments of a tool or the update of a node, or else the last output of the LLM before the handoff.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import dropwhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from handoffaudit.validation.telemetry import outputs
from handoffaudit.validation.telemetry.facts import Span

T = TypeVar("T")

_MOST_BEGUN: Final = 50
# A minute, in nanoseconds.
_MOST_PAUSE: Final = 60 * 10**9
# Ancestors that are further away are ignored, so that the cost of a chain of spans grows only with its length.
MOST_ANCESTORS: Final = 256
# Names of tools leave out Latin letters with marks. The letters of another script may be the whole name of an agent.
# Many scripts between Hebrew and Khmer write vowels as marks, which `\w` does not match.
_NOT_IN_NAMES: Final = re.compile(r"(?:[^\w\u0590-\u17ff]|[_\u0080-\u024f\u1e00-\u1eff])+")


def slug(name: str) -> str:
    """Return the normal form of an agent's name: `refund_agent` for `Refund Agent`, as in the names of tools.

    A name that would become empty, such as an emoji, is only converted to lower case.
    """
    return _NOT_IN_NAMES.sub("_", name.lower()).strip("_") or name.lower()


class Tree:
    """The spans of one trace, or of all traces of a conversation. If a span was sent twice, only the first counts."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._by_id: dict[tuple[str, str], Span] = {}
        for span in spans:
            self._by_id.setdefault((span.trace_id, span.span_id), span)
        self._parents = self._find_parents()
        self._rooted: dict[tuple[str, str], bool] = {}
        self._conversations: dict[tuple[str, str], str] = {}
        # A cache of the acting agent of each span, which the rules decide.
        self.acting: dict[tuple[str, str], str] = {}
        self.spans = sorted(self._by_id.values(), key=lambda span: (span.started, -span.ended, span.span_id))

    def _find_parents(self) -> dict[tuple[str, str], Span]:
        """Return the parent of each span. Spans in a cycle have no parent, because their order is unknown."""
        parents = {
            key: self._by_id[above]
            for key, span in self._by_id.items()
            if span.parent_id and (above := (span.trace_id, span.parent_id)) in self._by_id
        }
        seen: set[tuple[str, str]] = set()
        circles: set[tuple[str, str]] = set()
        for key in parents:
            path: dict[tuple[str, str], None] = {}
            at = key
            while at in parents and at not in seen and at not in path:
                path[at] = None
                at = _key(parents[at])
            if at in path:
                circles.update(dropwhile(at.__ne__, path))
            seen.update(path)
        for key in circles:
            del parents[key]
        return parents

    def parent_of(self, span: Span) -> Span | None:
        return self._parents.get((span.trace_id, span.span_id))

    def ancestors_of(self, span: Span) -> Iterator[Span]:
        """Yield the ancestors, the nearest first, at most `MOST_ANCESTORS`."""
        above = self.parent_of(span)
        for _ in range(MOST_ANCESTORS):
            if above is None:
                return
            yield above
            above = self.parent_of(above)

    @cached_property
    def _subtrees(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the number of each span in depth-first order, and the highest number below the span."""
        children: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for key, parent in self._parents.items():
            children[_key(parent)].append(key)
        waiting = [key for key in self._by_id if key not in self._parents]
        order: list[tuple[str, str]] = []
        while waiting:
            order.append(key := waiting.pop())
            waiting += children.get(key, ())
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for number, key in reversed([*enumerate(order)]):
            found[key] = number, max((found[one][1] for one in children.get(key, ())), default=number)
        return found

    def subtree_of(self, span: Span) -> tuple[int, int]:
        """Return the number of a span, and the highest number below the span.

        Another span is below `span` exactly if its own number is greater than the first returned number and at most the
        second.
        """
        return self._subtrees[_key(span)]

    def inherit(self, memo: dict[tuple[str, str], T], span: Span, decide: Callable[[Span, T | None], T]) -> T:
        """Return the value that `decide` derives for a span from its parent's value, and cache all values in `memo`."""
        path: dict[tuple[str, str], Span] = {}
        at: Span | None = span
        while at is not None and (key := _key(at)) not in memo:
            path[key] = at
            at = self.parent_of(at)
        value = memo.get(_key(at)) if at is not None else None
        for key, one in reversed(path.items()):
            value = memo[key] = decide(one, value)
        return memo[_key(span)]

    def is_rooted(self, span: Span) -> bool:
        """Return whether all ancestors of a span have arrived, up to a span without a parent."""

        def decide(one: Span, above: bool | None) -> bool:  # noqa: FBT001 -- `inherit` passes it
            return bool(above) if one.parent_id else True

        return self.inherit(self._rooted, span, decide)

    @cached_property
    def _orphans(self) -> dict[str, list[int]]:
        """Return the start times of the spans whose parents are missing, by trace."""
        found: dict[str, list[int]] = defaultdict(list)
        for span in self.spans:
            if span.parent_id and self.parent_of(span) is None:
                found[span.trace_id].append(span.started)
        return found

    def has_orphan_between(self, before: Span, after: Span) -> bool:
        """Return whether a span whose parent is missing began between the starts of two spans of a trace.

        The missing parent may be an agent.
        """
        starts = self._orphans.get(before.trace_id, [])
        return bisect_right(starts, before.started) < bisect_left(starts, after.started)

    @cached_property
    def agents(self) -> list[Span]:
        """Return the spans of named agents, in the order of their starts."""
        return [span for span in self.spans if span.facts.kind == "agent" and span.facts.agent]

    @cached_property
    def _starts(self) -> list[int]:
        return [span.started for span in self.agents]

    @cached_property
    def _starts_by_agent(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for span in self.agents:
            found[slug(span.facts.agent)].append(span.started)
        return found

    def rounds_of(self, agent: str, at: int) -> set[int]:
        """Return the numbers of the rounds of an agent that a time belongs to. `agent` is the slug of the agent.

        A round lasts from one start of the agent to the next start. The time of a start belongs to two rounds.
        """
        starts = self._starts_by_agent.get(agent, [])
        return {bisect_left(starts, at), bisect_right(starts, at)}

    @cached_property
    def names(self) -> dict[str, str]:
        """Return the names of agents and of the nodes of graphs, by slug."""
        found: dict[str, str] = {}
        for span in self.spans:
            for name in (span.facts.agent, span.facts.actor, namespace_of(span)[:1]):
                one = name if isinstance(name, str) else (name[0] if name else "")
                if one:
                    found.setdefault(slug(one), one)
        return found

    def name_of(self, written: str) -> str:
        """Return the name of the agent as its own spans spell it, or else `written`."""
        return self.names.get(slug(written), written)

    def next_agent(self, span: Span) -> Span | None:
        """Return the first agent span that starts at or after the start of `span` and is not one of its ancestors.

        If the trace has no such span, an agent of another trace counts if it starts at most a minute after the end of
        `span`.
        """
        agents, starts = self._agents_by_trace.get(span.trace_id, ([], []))
        if agents:
            above = {one.span_id for one in self.ancestors_of(span)}
            for later in agents[bisect_left(starts, span.started) :]:
                if later.span_id not in above and later is not span:
                    return later
        for later in self.agents[bisect_left(self._starts, span.started) :]:
            if later.started > span.ended + _MOST_PAUSE:
                break
            if later.trace_id != span.trace_id:
                return later
        return None

    @cached_property
    def _agents_by_trace(self) -> dict[str, tuple[list[Span], list[int]]]:
        """Return the spans of agents and their start times, in order of time, by trace."""
        found: dict[str, tuple[list[Span], list[int]]] = defaultdict(lambda: ([], []))
        for span in self.agents:
            spans, starts = found[span.trace_id]
            spans.append(span)
            starts.append(span.started)
        return found

    @cached_property
    def _llms_by_parent(self) -> dict[tuple[str, str], tuple[list[Span], list[int]]]:
        """Return the LLM spans with an output and their end times, in the order of these times, by parent."""
        llms = [span for span in self.spans if span.facts.kind == "llm" and (span.facts.said or span.facts.calls)]
        found: dict[tuple[str, str], tuple[list[Span], list[int]]] = defaultdict(lambda: ([], []))
        for span in sorted(llms, key=attrgetter("ended")):
            spans, ends = found[(span.trace_id, span.parent_id)]
            spans.append(span)
            ends.append(span.ended)
        return found

    def last_output(self, span: Span, parent_id: str) -> Span | None:
        """Return the LLM span with this parent that ended last before the start of `span`.

        If none has ended by then, return the LLM span that ends first among those that have begun by then, or None.
        """
        some, ends = self._llms_by_parent.get((span.trace_id, parent_id), ([], [])) if parent_id else ([], [])
        at = bisect_right(ends, span.started)
        begun = (one for one in some[at : at + _MOST_BEGUN] if one.started <= span.started)
        return some[at - 1] if at else next(begun, None)

    @cached_property
    def _states(self) -> dict[str, tuple[list[int], list[str]]]:
        """Return the times when a state of the trace named a current agent, and these agents, in order of time."""
        found: dict[str, tuple[list[int], list[str]]] = defaultdict(lambda: ([], []))
        for span in sorted((one for one in self.spans if one.facts.current), key=attrgetter("ended")):
            ends, agents = found[span.trace_id]
            ends.append(span.ended)
            agents.append(span.facts.current)
        return found

    def current_agent(self, span: Span) -> str:
        """Return the current agent in the last state before the start of `span`, or an empty text."""
        ends, agents = self._states.get(span.trace_id, ([], []))
        at = bisect_right(ends, span.started)
        return agents[at - 1] if at else ""

    @cached_property
    def _first_conversations(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for span in self.spans:
            if span.conversation:
                found.setdefault(span.trace_id, span.conversation)
        return found

    def conversation_of(self, span: Span) -> str:
        """Return the name of the work that a span belongs to.

        The name is the conversation of the topmost ancestor that names a conversation, else the first conversation of
        the trace, else the trace id. The topmost ancestor decides, because agents that are called as tools may have
        separate conversations.
        """

        def decide(one: Span, above: str | None) -> str:
            return above or one.conversation

        named = self.inherit(self._conversations, span, decide)
        return named or self._first_conversations.get(span.trace_id, span.trace_id)


def _key(span: Span) -> tuple[str, str]:
    return span.trace_id, span.span_id


def namespace_of(span: Span) -> list[str]:
    """Return the nodes of graphs that a span is in, the outermost first, as LangGraph writes them."""
    return [part.partition(":")[0] for part in span.facts.namespace.split("|")] if span.facts.namespace else []


if TYPE_CHECKING:
    from handoffaudit.validation.telemetry.handoff_rules import Found

_EMPTY: Final[tuple[object, ...]] = (None, "", {}, [])
# Whole sentences only: "Successfully transferred 50 EUR to savings" is not a handoff.
_CONFIRMATION: Final = re.compile(
    r"(?:successfully )?(?:transfer(?:red|ring)|hand(?:ed|ing)[ -]?(?:off|over))(?: control)?(?: back)?"
    r"(?: to (?:the )?(?:agent )?['\"`]?(?P<agent>[^'\"`\n]{1,200}?)['\"`]?(?:, adopting the role of [^\n]+)?)?[.!]?",
    re.IGNORECASE,
)
_MOST_CONFIRMATION: Final = 400
# A description of a tool. The pattern leaves out the word "transfer", because banking tools transfer money.
_DESCRIPTION: Final = re.compile(r"\bhand(?:s|ing)?[ -]?(?:off|over)\b", re.IGNORECASE)


def target_in(arguments: str) -> str:
    """Return the agent that the arguments of a tool name, or an empty text."""
    given = outputs.parse(arguments)
    if not isinstance(given, dict):
        return ""
    named = (given.get(name) for name in outputs.TARGET_NAMES)
    return next((name for name in named if isinstance(name, str) and 0 < len(name) <= 200), "")


def is_described(span: Span) -> bool:
    """Return whether the description of a tool says that the tool hands over."""
    return _DESCRIPTION.search(span.facts.description) is not None


def receiver_in(result: str) -> str | None:
    """Return the agent that the result of a tool names as the new agent.

    Return an empty text if the result names no agent, as in "Handed off", and None if the result confirms no handoff.
    """
    said: Any = result.strip()
    for _ in range(2):
        given = outputs.parse(said) if isinstance(said, str) and said[:1] in ("{", '"') else said
        if isinstance(given, dict):
            # The Agents SDK of OpenAI returns the new agent, and LangChain a message.
            if given.keys() == {"assistant"} and isinstance(given["assistant"], str):
                return given["assistant"]
            given = given.get("content")
        said = given
    if not isinstance(said, str) or len(said) > _MOST_CONFIRMATION:
        return None
    found = _CONFIRMATION.fullmatch(said.strip())
    return (found["agent"] or "").strip() if found else None


def fill(tree: Tree, found: "Found") -> None:
    """Set the payload: the arguments of the tool, the update of the node, or else the last output of the LLM."""
    found.data = _own(tree, found)
    if not found.data and (said := _read_output(tree, found)):
        found.data = said
        found.inferred["data"] = "llm_output"


def _own(tree: Tree, found: "Found") -> dict[str, Any]:
    facts = found.span.facts
    if found.rule == "goto" or (found.rule == "metadata" and not facts.arguments):
        return _data_of(facts.update) if found.rule == "goto" else {}
    if found.rule == "nesting":
        tool = _tool_between(tree, found)
        return _data_of(tool.facts.arguments) if tool else {}
    # Some instrumentations record the name of the source or the target in place of the arguments of a handoff.
    data = _data_of(facts.arguments)
    ends = {slug(found.source), slug(found.target)}
    return {} if data.keys() == {"text"} and slug(str(data["text"])) in ends else data


def _tool_between(tree: Tree, found: "Found") -> Span | None:
    """Return the span of the tool through which an agent called the agent of the handoff, or None."""
    for above in tree.ancestors_of(found.span):
        if above.facts.kind == "tool":
            return above
        if above.facts.kind == "agent":
            break
    return None


def _data_of(content: str) -> dict[str, Any]:
    """Return arguments as an object, without the name of the target. The object is empty if no value is left."""
    given = outputs.parse(content) if content[:1] in ("{", "[") else None
    if isinstance(given, dict):
        kept = {name: value for name, value in given.items() if name not in outputs.TARGET_NAMES}
        return kept if any(value not in _EMPTY for value in kept.values()) else {}
    if isinstance(given, list):
        return {"items": given} if given else {}
    return {"text": content} if content.strip() and content not in ("{}", "[]", "null") else {}


def _read_output(tree: Tree, found: "Found") -> dict[str, Any]:
    """Return the last output of the LLM before the handoff, below the same parent: call arguments, or else a text."""
    spans = [found.span]
    if found.rule == "nesting" and (tool := _tool_between(tree, found)):
        spans = [tool]
    for span in spans:
        output = tree.last_output(span, span.parent_id)
        if output is not None:
            return _call_of(output, found) or ({"text": output.facts.said} if output.facts.said else {})
    return {}


def _call_of(output: Span, found: "Found") -> dict[str, Any]:
    """Return the arguments of the call that led to the handoff: a call of the same tool, or for the same target."""
    target, tool = slug(found.target), slug(found.span.facts.tool)
    for name, arguments in output.facts.calls:
        called = slug(name)
        named = target_in(arguments)
        if called in (tool, target) or called.endswith(f"_{target}") or (named and slug(named) == target):
            return _data_of(arguments)
    return {}
