"""The payload of a handoff: the arguments that its span has, else what the LLM said before it."""

import re
from typing import TYPE_CHECKING, Any, Final

from handoffaudit.validation.telemetry import outputs
from handoffaudit.validation.telemetry.facts import Span
from handoffaudit.validation.telemetry.trees import Tree, slug

if TYPE_CHECKING:
    from handoffaudit.validation.telemetry.handoff_rules import Found

_EMPTY: Final[tuple[object, ...]] = (None, "", {}, [])
# Whole sentences only: "Successfully transferred 50 EUR to savings" is no handoff.
_CONFIRMATION: Final = re.compile(
    r"(?:successfully )?(?:transfer(?:red|ring)|hand(?:ed|ing)[ -]?(?:off|over))(?: control)?(?: back)?"
    r"(?: to (?:the )?(?:agent )?['\"`]?(?P<agent>[^'\"`\n]{1,200}?)['\"`]?(?:, adopting the role of [^\n]+)?)?[.!]?",
    re.IGNORECASE,
)
_MOST_CONFIRMATION: Final = 400
# The description of a tool; the word "transfer" would be that of a bank, too.
_DESCRIPTION: Final = re.compile(r"\bhand(?:s|ing)?[ -]?(?:off|over)\b", re.IGNORECASE)


def target_in(arguments: str) -> str:
    """Return the agent that the arguments of a tool name."""
    given = outputs.parse(arguments)
    if not isinstance(given, dict):
        return ""
    named = (given.get(name) for name in outputs.TARGET_NAMES)
    return next((name for name in named if isinstance(name, str) and 0 < len(name) <= 200), "")


def is_described(span: Span) -> bool:
    """Return whether the description of a tool says that the tool hands over."""
    return _DESCRIPTION.search(span.facts.description) is not None


def receiver_in(result: str) -> str | None:
    """Return the agent that the result of a tool names as the new one.

    Return an empty text for "Handed off", and None if the result does not say that a handoff happened.
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
    """Set the payload: the arguments of the tool, the update of the node, else the last output of the LLM."""
    found.data = _own(tree, found)
    if not found.data and (said := _said(tree, found)):
        found.data = said
        found.inferred["data"] = "llm_output"


def _own(tree: Tree, found: "Found") -> dict[str, Any]:
    facts = found.span.facts
    if found.rule == "goto" or (found.rule == "metadata" and not facts.arguments):
        return _data_of(facts.update) if found.rule == "goto" else {}
    if found.rule == "nesting":
        tool = _tool_between(tree, found)
        return _data_of(tool.facts.arguments) if tool else {}
    # Some instrumentations write the names of both ends where the arguments of a handoff would be.
    data = _data_of(facts.arguments)
    ends = {slug(found.source), slug(found.target)}
    return {} if data.keys() == {"text"} and slug(str(data["text"])) in ends else data


def _tool_between(tree: Tree, found: "Found") -> Span | None:
    """Return the tool with which an agent called the agent below it."""
    for above in tree.ancestors_of(found.span):
        if above.facts.kind == "tool":
            return above
        if above.facts.kind == "agent":
            break
    return None


def _data_of(content: str) -> dict[str, Any]:
    """Return the data of arguments without the name of the target, and no data if nothing is left."""
    given = outputs.parse(content) if content[:1] in ("{", "[") else None
    if isinstance(given, dict):
        kept = {name: value for name, value in given.items() if name not in outputs.TARGET_NAMES}
        return kept if any(value not in _EMPTY for value in kept.values()) else {}
    if isinstance(given, list):
        return {"items": given} if given else {}
    return {"text": content} if content.strip() and content not in ("{}", "[]", "null") else {}


def _said(tree: Tree, found: "Found") -> dict[str, Any]:
    """Return what the LLM said before the handoff, below the same parent: its call of the tool, else its text."""
    spans = [found.span]
    if found.rule == "nesting" and (tool := _tool_between(tree, found)):
        spans = [tool]
    for span in spans:
        output = tree.last_output(span, span.parent_id)
        if output is not None:
            return _call_of(output, found) or ({"text": output.facts.said} if output.facts.said else {})
    return {}


def _call_of(output: Span, found: "Found") -> dict[str, Any]:
    """Return the arguments of the call that led to the handoff: of this tool, or of one named for the target."""
    target, tool = slug(found.target), slug(found.span.facts.tool)
    for name, arguments in output.facts.calls:
        called = slug(name)
        named = target_in(arguments)
        if called in (tool, target) or called.endswith(f"_{target}") or (named and slug(named) == target):
            return _data_of(arguments)
    return {}
