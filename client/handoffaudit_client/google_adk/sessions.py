"""Reading of ADK's sessions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_USER = "user"

# State with these prefixes belongs to one invocation, or to more than one session.
_NOT_OF_THE_SESSION = ("temp:", "app:", "user:")


def lift(session: Any) -> Any:
    """Return the data of a transfer: the last text and the changed state since the previous transfer.

    If the events since then have neither, earlier events count. The text may be an agent's or the user's. The data is
    the text, the changed state, both as `text` and `state`, or {}.
    """
    text = ""
    state: dict[str, Any] = {}
    for event in reversed(session.events):
        if event.actions.transfer_to_agent and (text or state):
            break
        text = text or _text_of(event)
        for name, value in event.actions.state_delta.items():
            if not name.startswith(_NOT_OF_THE_SESSION):
                state.setdefault(name, value)
    if not state:
        return text or {}
    return {"text": text, "state": state} if text else state


def chain_of(session: Any, source: str) -> list[str]:
    """Return the agents that have worked in the session, in order; the source is the last one."""
    chain: list[str] = []
    for author in (*(event.author for event in session.events), source):
        if author and author != _USER and chain[-1:] != [author]:
            chain.append(author)
    return chain


def _text_of(event: Any) -> str:
    parts: Iterable[Any] = (event.content.parts if event.content else None) or ()
    texts = [part.text for part in parts if part.text and not part.thought]
    return "\n".join(texts).strip()
