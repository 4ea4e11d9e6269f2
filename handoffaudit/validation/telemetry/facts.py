"""The facts of a span, by which rules find handoffs. Everything else in a span, such as its prompts, is left out.

Names of attributes differ by instrumentation, so a table maps each known name to a role.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from handoffaudit.validation.telemetry import outputs
from handoffaudit.validation.text import MAX_TEXT, clean, storable

# The most characters of one text: the arguments or the result of a tool, or the output of an LLM or a node.
MOST_TEXT: Final = 64 * 1024
_MOST_GOTO: Final = 20
_DEEPEST: Final = 32


class Facts(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The facts of one span. A text is empty if the span does not state the fact.

    `kind` is `agent`, `tool`, `llm`, `handoff` or `node`. `agent` is the agent of the span. `source` and `target` are
    the ends of a handoff. `caller` called the agent, and `returns` tells whether the work goes back to the caller.

    `tool`, `description`, `call_id`, `arguments` and `result` describe a tool call; the last two are JSON or text.
    `named` is the agent that an attribute of the tool names. `stated` is all that the span says about the arguments. It
    is empty if `arguments` says the same, if the call has no result, or if the text is too long (`is_cut`). `said` and
    `calls` are the output of an LLM: its text, and the name and arguments of each tool call.

    `actor`, `destination` and `namespace` are LangChain's metadata. `goto` lists the next nodes after a node. If the
    output of the node is a command (`is_command`), `update` is the data for these nodes. `to_parent` then says that the
    nodes are in the parent graph. `current` is the current agent in the state of the run.
    """

    kind: str = ""
    agent: str = ""
    source: str = ""
    target: str = ""
    caller: str = ""
    returns: bool | None = None
    tool: str = ""
    description: str = ""
    call_id: str = ""
    named: str = ""
    arguments: str = ""
    stated: str = ""
    is_cut: bool = False
    result: str = ""
    said: str = ""
    calls: list[tuple[str, str]] = []
    actor: str = ""
    destination: str = ""
    namespace: str = ""
    goto: list[str] = []
    update: str = ""
    is_command: bool = False
    to_parent: bool = False
    current: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A span with its facts. Ids are in hexadecimal digits, times in nanoseconds since 1970.

    `sender` is the number of the API key that sent the span.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    started: int
    ended: int
    conversation: str
    facts: Facts
    sender: int = 0


class Refused(Exception):
    """Raised for a span that cannot be accepted. The sender sees the message."""


# Exact names of attributes. If several attributes of a span have the same role, the first in this table counts.
_ROLES: Final[dict[str, str]] = {
    "gen_ai.operation.name": "operation",
    "openinference.span.kind": "kind",
    "traceloop.span.kind": "kind",
    "langsmith.span.kind": "kind",
    "langfuse.observation.type": "observation",
    "gen_ai.agent.name": "agent",
    "agent.name": "agent",
    "agent_name": "agent",
    "graph.node.name": "node",
    "graph.node.id": "node",
    "traceloop.entity.name": "node",
    "ai.telemetry.functionId": "function",
    "gen_ai.caller.name": "caller",
    "gen_ai.caller.type": "caller_type",
    "gen_ai.transfer.mode": "mode",
    "gen_ai.tool.name": "tool",
    "tool.name": "tool",
    "ai.toolCall.name": "tool",
    "tool_name": "tool",
    "gen_ai.tool.description": "description",
    "tool.description": "description",
    "gen_ai.tool.call.id": "call_id",
    "tool.id": "call_id",
    "tool_call.id": "call_id",
    "ai.toolCall.id": "call_id",
    "tool_use_id": "call_id",
    "gen_ai.tool.call.arguments": "arguments",
    "ai.toolCall.args": "arguments",
    "tool_arguments": "arguments",
    "input.value": "input",
    "tool.parameters": "parameters",
    "traceloop.entity.input": "input",
    "langfuse.observation.input": "input",
    "gen_ai.tool.call.result": "result",
    "ai.toolCall.result": "result",
    "tool_response": "result",
    "output.value": "output",
    "traceloop.entity.output": "output",
    "langfuse.observation.output": "output",
    "gen_ai.task.output": "output",
    "gen_ai.output.messages": "messages",
    "ai.response.text": "said",
    "ai.response.toolCalls": "calls",
    "metadata": "metadata",
    "gen_ai.conversation.id": "conversation",
    "session.id": "session",
    "langfuse.session.id": "session",
    "thread_id": "thread",
    "session_id": "session",
    # Attributes of the events of a span.
    "content": "content",
    "message": "message",
}
# Money and files are transferred, too, so the word `transfer` counts only below a prefix such as `gen_ai.` or `agent.`.
_HANDING: Final = r"(?:(?:^|\.)hand_?off|^(?:gen_ai\.|agent\.|(?:.+\.)?agent\.)(?:.+\.)?transfer)"
# Patterns for names that instrumentations put below a prefix of their own.
_ENDS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(_HANDING + r"[._](?:to|target|destination)(?:[._]?agent)?(?:[._]name)?$"), "target"),
    (re.compile(_HANDING + r"[._](?:from|source)(?:[._]?agent)?(?:[._]name)?$"), "source"),
    (re.compile(r"^(?!tool\.)(?:.+\.)?to_agent$"), "target"),
    (re.compile(r"^(?!tool\.)(?:.+\.)?from_agent$"), "source"),
    (re.compile(r"(?:^|\.)goto_nodes?$"), "goto"),
    (re.compile(r"(?:metadata|properties)\.__handoff_destination$"), "destination"),
    (re.compile(r"(?:metadata|properties)\.lc_agent_name$"), "actor"),
    (re.compile(r"(?:metadata|properties)\.langgraph_checkpoint_ns$"), "namespace"),
    (re.compile(r"(?:metadata|properties)\.langgraph_node$"), "lc_node"),
    (re.compile(r"(?:metadata|properties)\.(?:thread_id|session_id)$"), "thread"),
    (re.compile(r"^gen_ai\.workflow\.(?:nodes|edges)$"), "workflow"),
    (re.compile(rf"(?:^|\.)(?:{'|'.join(outputs.TARGET_NAMES)})$"), "named"),
    (re.compile(r"^(?:llm\.output_messages|gen_ai\.completion)\.\d+\."), "flat"),
)
_AGENT_KINDS: Final = frozenset({"agent", "invoke_agent"})
_LLM_KINDS: Final = frozenset({"llm", "chat", "completion", "generation", "generate_content", "text_completion"})
_TOOL_KINDS: Final = frozenset({"tool", "execute_tool"})
_HANDOFF_KINDS: Final = frozenset({"handoff", "agent_handoff", "transfer"})
_NODE_KINDS: Final = frozenset({"chain", "task", "execute_task", "goto", "workflow"})
_TITLE: Final = re.compile(r"^hand-?_?off(?::|\s+to\b|\s)\s*(.+)$", re.IGNORECASE)
_ARROW: Final = re.compile(r"^(.+?)\s*(?:→|->)\s*(.+?)(?:\.hand_?off)?$", re.IGNORECASE)
_AGENT_TITLE: Final = re.compile(r"^(?:invoke_agent (.+)|(.+)\.(?:run|arun|invoke))$")
_UNKNOWN: Final = frozenset({"", "unknown", "none", "null"})


# Every name that matches a pattern of `_ENDS` contains one of these words. Nearly no other name does, so the lookup of
# unknown names is cheap.
_WORDS: Final = re.compile(
    "hand_?off|transfer|agent|goto|_id$|langgraph|workflow|member|coworker|recip|assign|output|comp"
)


@lru_cache(maxsize=8192)
def _role_of(key: str) -> str:
    if len(key) > MAX_TEXT or (key not in _ROLES and not _WORDS.search(key)):
        return ""
    return _ROLES.get(key) or next((role for pattern, role in _ENDS if pattern.search(key)), "")


class Roles:
    """The attributes of one span by role. An attribute is decoded only on request."""

    def __init__(self, attributes: Iterable[tuple[str, Any]], decode: Callable[[Any, int], Any]) -> None:
        self._decode = decode
        self._found: dict[str, Any] = {}
        self.flat: list[tuple[str, Any]] = []
        for key, value in attributes:
            role = _role_of(key)
            if role == "flat":
                self.flat.append((key, value))
            elif role and (role not in self._found or key in _ROLES):
                # Exact names take precedence, in the order of the table. Of other names, the first attribute counts.
                before = self._found.get(role)
                if before is None or _ORDER.get(key, 99) < before[0]:
                    self._found[role] = (_ORDER.get(key, 99), value)

    def get(self, role: str) -> Any:
        found = self._found.get(role)
        return None if found is None else self._decode(found[1], _DEEPEST)

    def text(self, role: str) -> str:
        """Return the text of an attribute; see `outputs.word_of`."""
        return outputs.word_of(self.get(role))

    def has(self, role: str) -> bool:
        return role in self._found

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each flat attribute of an LLM's output messages."""
        for key, raw in self.flat:
            value = self._decode(raw, 1)
            if isinstance(value, str):
                yield key, value


_ORDER: Final = {key: position for position, key in enumerate(_ROLES)}


def read_facts(name: str, roles: Roles, events: Iterable[tuple[str, Roles]]) -> tuple[Facts, str]:
    """Return the facts of a span, and the id of its conversation. Raises `Refused` if an agent's name is too long."""
    facts = Facts(kind=_kind_of(name, roles))
    metadata = outputs.parse(roles.text("metadata")) if roles.has("metadata") else None
    said = metadata if isinstance(metadata, dict) else {}
    facts.actor = _name(roles.text("actor") or said.get("lc_agent_name"), "lc_agent_name")
    facts.destination = _name(roles.text("destination") or said.get("__handoff_destination"), "__handoff_destination")
    facts.namespace = _short(roles.text("namespace") or said.get("langgraph_checkpoint_ns"))
    facts.agent = _agent_of(name, facts.kind, roles)
    _read_handoff(name, facts, roles)
    _READERS.get(facts.kind, _read_node)(name, facts, roles, list(events))
    thread = roles.text("thread") or outputs.word_of(said.get("thread_id")) or outputs.word_of(said.get("session_id"))
    conversation = roles.text("conversation") or roles.text("session") or thread
    return facts, _short(conversation)


def _kind_of(name: str, roles: Roles) -> str:
    """Return the first kind in the table whose sign the span has, or an empty text."""
    stated = {roles.text(role).lower() for role in ("operation", "kind", "observation")}
    is_named = name[:1] in "hH" and _TITLE.match(name) is not None
    is_agent = name == "agent run" or (name.startswith("ai.") and roles.has("function"))
    signs = (
        ("handoff", not stated.isdisjoint(_HANDOFF_KINDS) or is_named),
        ("tool", not stated.isdisjoint(_TOOL_KINDS) or name.startswith("ai.toolCall")),
        ("node", not stated.isdisjoint(_NODE_KINDS) or roles.has("workflow")),
        ("agent", is_agent or not stated.isdisjoint(_AGENT_KINDS)),
        ("llm", not stated.isdisjoint(_LLM_KINDS)),
        ("handoff", bool(_drop_unknown(roles.text("target")))),
        ("tool", roles.has("tool")),
        ("node", roles.has("output")),
    )
    return next((kind for kind, is_there in signs if is_there), "")


def _agent_of(name: str, kind: str, roles: Roles) -> str:
    """Return the name of the span's agent. Some instrumentations write this name only into the name of the span."""
    found = roles.text("agent")
    if not found and kind == "agent":
        title = _AGENT_TITLE.match(name)
        found = roles.text("function") or roles.text("node") or (title[1] or title[2] if title else "")
        found = found or (name if roles.text("observation") == "agent" else "")
    return _name(found, "gen_ai.agent.name")


def _read_handoff(name: str, facts: Facts, roles: Roles) -> None:
    """Set `source`, `target`, `caller` and `returns` from the attributes of the span.

    If a handoff span has no attribute for the target, the target is read from the span's name. If the source
    is missing, too, it is read from the same name, or from the span's input if the name has only the target.
    """
    source, target = _drop_unknown(roles.text("source")), _drop_unknown(roles.text("target"))
    if facts.kind == "handoff" and not target:
        title = _TITLE.match(name)
        arrow = _ARROW.match(title[1] if title else name)
        if arrow:
            source, target = source or _drop_unknown(arrow[1]), _drop_unknown(arrow[2])
        elif title:
            target = _drop_unknown(title[1])
            source = source or _drop_unknown(_plain(roles.text("input")))
    facts.source, facts.target = _name(source, "the source of a handoff"), _name(target, "the target of a handoff")
    if roles.text("caller_type").lower() in ("", "agent"):
        facts.caller = _name(roles.text("caller"), "gen_ai.caller.name")
    if mode := roles.text("mode"):
        facts.returns = mode == "return_to_caller"


def _read_tool(name: str, facts: Facts, roles: Roles, events: list[tuple[str, Roles]]) -> None:
    stated = roles.text("tool") or roles.text("node")
    stated = stated or name.removeprefix("execute_tool ").removesuffix(".run")
    facts.tool = _short(stated)
    # A long description is dropped, because the descriptions of handoff tools are short.
    facts.description = _short(roles.text("description"))
    facts.call_id = _short(roles.text("call_id"))
    facts.named = _name(roles.text("named"), "the target of a handoff")
    given = [roles.get(role) for role in ("arguments", "input", "parameters")]
    given += [inside.get("content") for event, inside in events if event == "gen_ai.tool.message"]
    arguments = outputs.arguments_of(given[:3]) or next(filter(None, given[3:]), None)
    facts.arguments = _text(arguments)
    facts.result = _text(roles.get("result") if roles.has("result") else roles.get("output"))
    for event, inside in events:
        if event == "gen_ai.choice" and not facts.result:
            facts.result = _text(inside.get("message"))
    _set_stated(facts, outputs.list_stated(given), arguments)
    _read_goto(facts, roles)


def _set_stated(facts: Facts, stated: list[Any], arguments: object) -> None:
    """Store all that the span says about the arguments.

    A result is not evidence for a value that it only repeats from the arguments, so the arguments must be known.
    """
    if facts.kind != "tool" or not facts.result or not stated:
        return
    is_more = stated != [arguments]
    text = outputs.text_of(stated if is_more else arguments)
    facts.is_cut = not 0 < len(text) <= MOST_TEXT
    facts.stated = clean(text, MOST_TEXT) if is_more and not facts.is_cut else ""


def _read_llm(_: str, facts: Facts, roles: Roles, events: list[tuple[str, Roles]]) -> None:
    found = outputs.read_output(
        messages=roles.get("messages"),
        flat=roles.outputs(),
        said=roles.text("said"),
        calls=roles.get("calls"),
        choices=[inside.get("message") for event, inside in events if event == "gen_ai.choice"],
        value=roles.text("output"),
    )
    facts.said, facts.calls = found.text, found.calls


def _read_node(_: str, facts: Facts, roles: Roles, __: list[tuple[str, Roles]]) -> None:
    _read_goto(facts, roles)
    stated = (outputs.current_agent(roles.text(role)) for role in ("output", "input"))
    facts.current = _short(next((agent for agent in stated if agent), ""))


def _read_goto(facts: Facts, roles: Roles) -> None:
    """Set the next nodes from an attribute, or from the output of a node or a tool."""
    if roles.has("goto"):
        stated = roles.text("goto")
        nodes = outputs.parse(stated) if stated.startswith("[") else stated
        facts.goto = [_short(one) for one in outputs.goto_of({"goto": nodes})][:_MOST_GOTO]
        return
    output = roles.text("output")
    command = outputs.find_command(output) if '"goto"' in output else None
    if command is not None:
        facts.goto = [_short(one) for one in outputs.goto_of(command)][:_MOST_GOTO]
        facts.is_command = True
        facts.update = _text(command.get("update"))
        facts.to_parent = command.get("graph") == "__parent__"


def _read_agent(_: str, facts: Facts, roles: Roles, __: list[tuple[str, Roles]]) -> None:
    facts.current = ""


_READERS: Final[dict[str, Callable[[str, Facts, Roles, list[tuple[str, Roles]]], None]]] = {
    "agent": _read_agent,
    "tool": _read_tool,
    "handoff": _read_tool,
    "llm": _read_llm,
}


def _drop_unknown(value: str) -> str:
    return "" if value.strip().lower() in _UNKNOWN else value.strip()


def _plain(value: str) -> str:
    """Return the text if it can be a name. Return an empty text for JSON and for long texts."""
    return value if len(value) <= MAX_TEXT and value[:1] not in ("{", "[", '"') else ""


def _name(value: object, what: str) -> str:
    """Return the name of an agent. Raises `Refused` for a long name, because a shortened name would be another name."""
    if not isinstance(value, str):
        return ""
    if len(value) > MAX_TEXT:
        raise Refused(f"{what} has {len(value):,} characters: use at most {MAX_TEXT}")
    return value.strip() if storable(value) else ""


def _short(value: object) -> str:
    """Return an id or a name. Return an empty text for other types, long texts and texts that cannot be stored."""
    return value if isinstance(value, str) and len(value) <= MAX_TEXT and storable(value) else ""


def _text(value: object) -> str:
    """Return a text, or the JSON of another value, with at most `MOST_TEXT` characters, fit to be stored."""
    return "" if value in ("", {}, []) else clean(outputs.text_of(value), MOST_TEXT)
