"""Records of A2A: requests that send a message to another agent, in the spelling of protocol 1.0 or 0.3."""

from typing import Any, Final

from handoffaudit.validation.formats.base import Document, entries, obj
from handoffaudit.validation.formats.native import MESSAGE, Framework, NativeHandoff
from handoffaudit.validation.paths import Location

_METHODS: Final = frozenset({"SendMessage", "SendStreamingMessage", "message/send", "message/stream"})
_SOURCES: Final = ("from", "source", "source_agent_id")
_TARGETS: Final = ("to", "target", "target_agent_id")


def find(document: Document) -> NativeHandoff | None:
    is_request = "jsonrpc" in document
    if is_request and document.get("method") not in _METHODS:
        return None
    params = obj(document.get("params")) if is_request else document
    message = obj(params.get("message"))
    if not isinstance(message.get("messageId"), str) or not isinstance(message.get("parts"), list):
        return None
    metadata = obj(message.get("metadata"))
    source, target = _first(metadata, _SOURCES), _first(metadata, _TARGETS)
    inside: Location = ("params", "message", "metadata") if is_request else ("message", "metadata")
    return NativeHandoff(
        source=metadata.get(source),
        target=metadata.get(target),
        source_at=(*inside, source),
        target_at=(*inside, target),
        data=_read_parts(message["parts"]),
        handoff_type=MESSAGE,
        trace_id=message.get("contextId"),
        handoff_id=message["messageId"],
    )


def _first(metadata: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return the first name that the metadata has; the first name of all if it has none."""
    return next((name for name in names if name in metadata), names[0])


def _read_parts(parts: list[Any]) -> dict[str, Any]:
    """Return the single object of a message as it is; otherwise the texts, objects and files under a name each."""
    found = [obj(part) for part in entries(parts)]
    texts = [part["text"] for part in found if isinstance(part.get("text"), str)]
    objects: list[dict[str, Any]] = [part["data"] for part in found if isinstance(part.get("data"), dict)]
    files = [part[name] for part in found for name in ("url", "raw", "file") if part.get(name)]
    if len(objects) == 1 and not (texts or files):
        return objects[0]
    data: dict[str, Any] = {"text": "\n\n".join(texts)} if texts else {}
    if objects:
        data["data"] = objects[0] if len(objects) == 1 else objects
    return data | ({"files": files} if files else {})


def resembles(document: Document) -> bool:
    return document.get("jsonrpc") == "2.0" and isinstance(document.get("method"), str)


FRAMEWORK: Final = Framework(
    name="a request of A2A",
    wanted="a request of SendMessage or message/send, whose message has a messageId and parts",
    find=find,
    resembles=resembles,
)
