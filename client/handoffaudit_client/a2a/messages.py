"""Messages of A2A as JSON, in the spelling of 1.x or 0.3, read as handoffs."""

from __future__ import annotations

from handoffaudit_client.plugins import handoff_id_of
from handoffaudit_client.traces import current_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Keys of the sender in the metadata of a message.
_SOURCES = ("from", "source", "source_agent_id")


def question_of(
    message: Mapping[str, Any],
    source: str,
    target: str,
    seam: str,
    type: str | None,  # noqa: A002 (the word of the API)
) -> dict[str, Any]:
    """Return the parameters of `Client.gate` for a message.

    The same `messageId` gives the same id, so that a repeated message asks about the handoff of the first message.
    `seam`, the side that asks, is part of the id. The client and the server may know the agents by different names, so
    they ask about two handoffs.
    """
    message_id = str(message.get("messageId") or "")
    reason = metadata_of(message).get("reason")
    return {
        "source": source,
        "target": target,
        "data": read_data(message.get("parts") or message.get("content")),
        "trace": str(message.get("contextId") or "") or current_trace() or None,
        "handoff_id": handoff_id_of(f"a2a {seam} {target}", message_id) if message_id else None,
        "reason": reason if isinstance(reason, str) else None,
        "type": type,
    }


def source_in(message: Mapping[str, Any]) -> str:
    """Return the sender that the metadata of a message names; '' if there is none."""
    found = (metadata_of(message).get(name) for name in _SOURCES)
    return next((one for one in found if isinstance(one, str) and one.strip()), "")


def metadata_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    found = message.get("metadata")
    return found if isinstance(found, dict) else {}


def read_data(parts: Any) -> Any:
    """Return the single text or object of a message as it is; otherwise the texts, objects and names of files."""
    found = [part for part in (parts if isinstance(parts, list) else []) if isinstance(part, dict)]
    texts = [part["text"] for part in found if isinstance(part.get("text"), str)]
    objects = [part["data"] for part in found if part.get("data") is not None]
    files = [name for part in found if (name := _file_of(part))]
    if not files and len(texts) + len(objects) == 1:
        return (texts + objects)[0]
    data: dict[str, Any] = {"text": "\n\n".join(texts)} if texts else {}
    if objects:
        data["data"] = objects[0] if len(objects) == 1 else objects
    return {**data, "files": files} if files else data


def _file_of(part: Mapping[str, Any]) -> str:
    """Return the name or the address of a file, whose content is not sent; '' if the part is no file."""
    file = part.get("file") if isinstance(part.get("file"), dict) else part
    is_file = file is not part or part.get("raw") or part.get("url")
    named = (file or {}).get
    return str(named("filename") or named("name") or named("url") or named("uri") or "file") if is_file else ""
