"""The content of spans: arguments of tools, texts and tool calls of LLMs, and the next nodes after a node."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from handoffaudit.validation.json_text import could_be_deeper, deeper_than, to_json

# The names of arguments and attributes in which a generic tool names the agent that takes over.
TARGET_NAMES: Final = (
    "agent_name",
    "to_agent",
    "target_agent",
    "target_agent_name",
    "next_agent",
    "recipient",
    "recipient_agent",
    "member_id",
    "member_name",
    "coworker",
    "subagent_type",
    "subagent",
    "assignee",
)

_MOST_JSON: Final = 1024 * 1024
_DEEPEST: Final = 64
_MOST_CALLS: Final = 20
_MOST_SAID: Final = 16 * 1024
_WRAPPERS: Final = ("kwargs", "input_str", "inputs", "args", "input", "arguments")
# The fields of LangGraph's metadata that hold the number of the step and the place within the step.
_STEPS: Final = ("langgraph_step", "langgraph_path")
_MOST_STEPS: Final = 1_000
# Python's representation of an object. Frameworks put such values among the arguments of a tool.
_OBJECT: Final = re.compile(r"^<[\w.]+ object(?: at 0x[0-9a-f]+)?>$")
_CALL: Final = re.compile(r"\.tool_calls\.(\d+)\.(?:tool_call\.)?(?:function\.)?(name|arguments)$")
_CONTENT: Final = re.compile(r"\.(\d+)\.(?:message\.)?(?:content|contents\.\d+\.message_content\.text)$")
_CURRENT: Final = re.compile(r"""\b(?:current|active)_agent(?:_name)?['"]?\s*[=:]\s*['"]([^'"\\]{1,200})['"]""")
_MOST_SEARCHED: Final = 256 * 1024


@dataclass(slots=True)
class Output:
    """The output of an LLM: its last text, and its tool calls with their names and arguments."""

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    def add_call(self, name: object, arguments: object) -> None:
        if isinstance(name, str) and name and len(self.calls) < _MOST_CALLS:
            self.calls.append((name[:200], text_of(arguments)[:_MOST_SAID]))

    def add_text(self, text: object) -> None:
        if not isinstance(text, str) or not text.strip():
            return
        message = _read_repr(text)
        if message is None:
            self.text = text[:_MOST_SAID]
        else:
            _read_message(message, self)


def parse(text: str) -> Any:
    """Return the value of a JSON text, or None if the text is not JSON, too long, or nested too deeply."""
    if len(text) > _MOST_JSON:
        return None
    raw = text.encode("utf-8", "replace")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return None if could_be_deeper(raw, _DEEPEST) and deeper_than(value, _DEEPEST) else value


def _read_repr(text: str) -> dict[str, Any] | None:
    """Return the message in a text that is Python's representation of a dictionary, or None.

    Some instrumentations write messages in this form.
    """
    if not text.startswith("{'") or len(text) > _MOST_SAID or text.count("{") + text.count("[") > _DEEPEST:
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return to_json(value) if isinstance(value, dict) and "content" in value else None


def integer_of(value: Any) -> Any:
    """Return the 64-bit integer in a text of digits, because OTLP/JSON writes integers as texts. Keep other values."""
    number = int(value) if isinstance(value, str) and re.fullmatch("-?[0-9]{1,20}", value) else None
    return value if number is None or not -(2**63) <= number < 2**64 else number


def word_of(value: object) -> str:
    """Return a text, or the digits of an integer, such as the id of a session. Otherwise, return an empty text."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def text_of(value: object) -> str:
    """Return a text unchanged, and the JSON of any other value.

    Return an empty text for None, and for a value that cannot be written as JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return ""


def arguments_of(stated: Iterable[object]) -> object:
    """Return the arguments of a tool: the first object in `stated` that is not empty, or else the first other value.

    The wrapping of frameworks is removed, and the schema of the tool is skipped.
    """
    kept: object = None
    for value in stated:
        found = _unwrap(parse(value) if isinstance(value, str) and value[:1] in ("{", "[") else value)
        if isinstance(found, dict):
            if found and not _is_schema(found):
                return found
        elif found and kept is None:
            kept = found
    return kept


def list_stated(stated: Iterable[object]) -> list[Any]:
    """Return the distinct values about the arguments of a tool, with the wrapping of frameworks.

    The schema of the tool is left out if there is another value, because its numbers are limits and not arguments.
    """
    found: list[Any] = []
    for value in stated:
        parsed = parse(value) if isinstance(value, str) and value[:1] in ("{", "[") else None
        # A text that begins like JSON but is not JSON may be Python's representation of the arguments.
        one = _without_steps(value if parsed is None else parsed)
        if one not in (None, "", {}, [], *found):
            found.append(one)
    return [one for one in found if not (isinstance(one, dict) and _is_schema(one))] or found[:1]


def _without_steps(value: Any) -> Any:
    """Remove LangGraph's step numbers from arguments in the wrapping of LangChain, because no agent chose the numbers.

    Return any other value unchanged.
    """
    metadata = value.get("metadata") if isinstance(value, dict) and "input_str" in value else None
    if not isinstance(metadata, dict):
        return value
    kept = {name: one for name, one in metadata.items() if name not in _STEPS}
    return value | {"metadata": kept | {name: _without_counts(metadata[name]) for name in _STEPS if name in metadata}}


def _without_counts(value: Any) -> Any:
    if isinstance(value, list):
        return [one for one in value if _without_counts(one) is not None]
    return None if isinstance(value, int) and 0 <= value < _MOST_STEPS else value


def _unwrap(value: Any) -> Any:
    for _ in range(3):
        if not isinstance(value, dict):
            return value
        inner = next((value[name] for name in _WRAPPERS if name in value and _is_wrapper(value, name)), None)
        if inner is None:
            break
        if inner in ({}, "{}"):
            return {}
        value = parse(inner) if isinstance(inner, str) and inner[:1] == "{" else inner
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if not (isinstance(one, str) and _OBJECT.match(one))}
    return value


def _is_wrapper(value: dict[str, Any], name: str) -> bool:
    """Return whether the field `name` holds the arguments: all other fields, if any, are added by frameworks."""
    beside = value.keys() - {name}
    if isinstance(value[name], dict):
        return not beside or beside <= {"args", "tags", "metadata", "kwargs", "inputs", "name", "run_id", "ctx"}
    return isinstance(value[name], str) and name == "input_str"


def _is_schema(value: dict[str, Any]) -> bool:
    """Return whether the value is the JSON Schema of a tool, which some instrumentations record as its arguments."""
    return isinstance(value.get("properties"), dict) and ("type" in value or "required" in value)


def read_output(
    *,
    messages: object,
    flat: Iterable[tuple[str, str]],
    said: str,
    calls: object,
    choices: Iterable[object],
    value: str,
) -> Output:
    """Return the output of an LLM from the different attributes and events that instrumentations record."""
    found = Output()
    for message in _list(messages):
        _read_message(message, found)
    _read_flat(flat, found)
    found.add_text(said)
    for call in _list(calls):
        if isinstance(call, dict):
            found.add_call(call.get("toolName"), call.get("args", call.get("input")))
    for choice in choices:
        _read_choice(choice, found)
    if not found.text and not found.calls and value[:1] not in ("{", "["):
        found.add_text(value)
    return found


def _list(value: object) -> list[Any]:
    value = parse(value) if isinstance(value, str) else value
    return value[:_MOST_CALLS] if isinstance(value, list) else []


def _read_message(message: object, found: Output) -> None:
    if not isinstance(message, dict):
        return
    for part in _list(message.get("parts")):
        if not isinstance(part, dict):
            continue
        if part.get("type") == "tool_call":
            found.add_call(part.get("name"), part.get("arguments"))
        elif part.get("type") == "text":
            found.add_text(part.get("content"))
    found.add_text(message.get("content"))
    for call in _list(message.get("tool_calls")):
        inner = call.get("function", call) if isinstance(call, dict) else None
        if isinstance(inner, dict):
            found.add_call(inner.get("name"), inner.get("arguments"))


def _read_flat(flat: Iterable[tuple[str, str]], found: Output) -> None:
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in flat:
        if call := _CALL.search(key):
            parts.setdefault((key[: call.start()], call[1]), {})[call[2]] = value
        elif _CONTENT.search(key):
            found.add_text(value)
    for call_parts in parts.values():
        found.add_call(call_parts.get("name"), call_parts.get("arguments"))


def _read_choice(choice: object, found: Output) -> None:
    parsed = parse(choice) if isinstance(choice, str) else choice
    if not isinstance(parsed, dict | list):
        found.add_text(choice)
        return
    for part in parsed if isinstance(parsed, list) else [parsed]:
        if not isinstance(part, dict):
            continue
        if isinstance(use := part.get("toolUse"), dict):
            found.add_call(use.get("name"), use.get("input"))
        else:
            found.add_text(part.get("text"))
            _read_message(part, found)


def find_command(output: str) -> dict[str, Any] | None:
    """Return the command in the output of a node, with or without wrapping, or None.

    A command has `goto`, and `update` or `graph`. Other objects with `goto` are data, such as the output of navigation
    tools.
    """
    value: Any = parse(output)
    for _ in range(4):
        if isinstance(value, list):
            value = next((one for one in value if isinstance(one, dict) and "goto" in one), None)
        if not isinstance(value, dict):
            return None
        if "goto" in value:
            return value if "update" in value or "graph" in value else None
        value = next((value[name] for name in ("outputs", "output", "result") if name in value), None)
    return None


def goto_of(command: dict[str, Any]) -> Iterator[str]:
    """Yield the nodes that a command goes to, without LangGraph's own nodes such as `__end__`."""
    goto = command.get("goto")
    for one in goto if isinstance(goto, list) else [goto]:
        node = one.get("node") if isinstance(one, dict) else one
        if isinstance(node, str) and node and not node.startswith("__"):
            yield node


def current_agent(output: str) -> str:
    """Return the agent that the text of a state names last as the current agent, or an empty text."""
    if "_agent" not in output:
        return ""
    found = _CURRENT.findall(output, 0, _MOST_SEARCHED)
    return found[-1] if found else ""
