"""Reading of messages and states."""

from __future__ import annotations

from handoffaudit_client.plugins import handoff_id_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

# langgraph-supervisor sets this key in `response_metadata` of the messages with which a worker returns control.
HANDED_BACK = "__is_handoff_back"

_TRANSFERRED = "Successfully transferred"

# Roles of messages with instructions for the agent.
_PROMPTS = ("system", "developer")

# The framework's own fields of a state.
_BOOKKEEPING = {"messages", "active_agent", "remaining_steps", "is_last_step", "jump_to"}


def lift(arguments: Any, state: Any) -> Any:
    """Return the data of a handoff: the arguments of its tool.

    Without arguments, the data is the last text of the messages and the other fields of the state, or else {}.
    """
    if arguments:
        return arguments
    if state is None:
        return {}
    fields = _fields(state)
    text = _last_text(fields.get("messages"))
    others = {name: value for name, value in fields.items() if name not in _BOOKKEEPING and value not in (None, "", [])}
    if others:
        return {**others, "text": text} if text else others
    return text or {}


def messages_of(state: Any) -> Sequence[Any]:
    found = _fields(state).get("messages")
    return found if isinstance(found, (list, tuple)) else []


def chain_of(messages: Iterable[Any], source: str) -> list[str]:
    """Return the agents that have worked since the last request of a person, in order; the last is the source."""
    chain: list[str] = []
    for message in messages:
        if getattr(message, "type", "") == "human":
            chain.clear()
        name = message.name if getattr(message, "type", "") == "ai" else None
        if name and name != (chain[-1] if chain else ""):
            chain.append(name)
    return chain if chain and chain[-1] == source else [*chain, source]


def parent_of(messages: Sequence[Any], trace: str, call_id: str) -> str | None:
    """Return the id of the last handoff in the messages, except the handoff of this call.

    Return None if there is none, or if `trace` is empty.
    """
    for message in reversed(messages):
        if trace and is_transfer(message) and message.tool_call_id != call_id:
            return handoff_id_of(trace, message.tool_call_id)
    return None


def is_transfer(message: Any) -> bool:
    """Return whether the message is the answer of a handoff tool."""
    return getattr(message, "type", "") == "tool" and text_of(message).startswith(_TRANSFERRED)


def text_of(message: Any) -> str:
    """Return the text of a message, which may also be a text, a dict, or a tuple of role and text.

    Blocks of text are joined by line breaks. A dict or a tuple with the prompt of an agent has no text.
    """
    if isinstance(message, dict):
        content = "" if message.get("role", message.get("type")) in _PROMPTS else message.get("content")
    elif isinstance(message, (tuple, list)):
        content = message[-1] if message and message[0] not in _PROMPTS else ""
    else:
        content = message if isinstance(message, str) else getattr(message, "content", "")
    blocks = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = (one if isinstance(one, str) else one.get("text") if isinstance(one, dict) else "" for one in blocks)
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _fields(state: Any) -> dict[str, Any]:
    if isinstance(state, dict):
        return state
    if isinstance(state, list):
        return {"messages": state}
    return dict(vars(state)) if hasattr(state, "__dict__") else {}


def _last_text(messages: Any) -> str:
    """Return the last text in the messages; '' if there is none.

    Failures, system messages and messages about handoffs do not count.
    """
    for message in reversed(messages if isinstance(messages, list) else [messages]):
        is_report = (
            is_transfer(message)
            or getattr(message, "status", "") == "error"
            or getattr(message, "type", "") == "system"
            or (getattr(message, "response_metadata", None) or {}).get(HANDED_BACK)
        )
        if not is_report and (text := text_of(message)):
            return text
    return ""
