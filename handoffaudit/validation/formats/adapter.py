"""A universal handoff of version 2.0 lifted to 3.0: nothing that was sent is lost, and the same comes of the same."""

from collections.abc import Mapping
from typing import Any, Final

from handoffaudit.validation.canonical import compact
from handoffaudit.validation.counting import estimate
from handoffaudit.validation.formats.base import Document, obj
from handoffaudit.validation.text import is_uuid

FROM: Final = "2.0"
TO: Final = "3.0"

_MAX_SUMMARY = 500
_MOST_TOKENS = 2000
_CONFIDENCE = "medium"
_PHASE = "unknown"
_CARRIED = ("source", "target", "context", "payload", "meta")
_AS_THEY_ARE = ("timestamp", "expires_at", "tracing")
_KNOWN = frozenset((*_CARRIED, *_AS_THEY_ARE, "version", "schema_type", "trace_id"))
# what the sender computed of the document as it was
_OF_THE_OLD = ("token_count", "payload_hash", "payload_size_bytes")


def lift(document: Document, trace_id: str) -> Document:
    """The document in version 3.0, for any JSON object. `trace_id` is what it gets where it has none.

    What 3.0 asks for and 2.0 does not have is filled in: the summary from the prompt, the phase `unknown`, the
    confidence `medium`, the token count from the characters. Fields that 3.0 does not know go to `payload.working`.
    """
    handoff = obj(document.get("handoff"))
    strangers = {
        **{name: value for name, value in handoff.items() if name not in _KNOWN},
        **{name: value for name, value in document.items() if name != "handoff"},
    }
    payload = _payload(handoff, strangers)
    lifted: dict[str, Any] = {
        "version": TO,
        "schema_type": "universal",
        **{name: handoff[name] for name in _AS_THEY_ARE if handoff.get(name) is not None},
        "trace_id": handoff.get("trace_id") or trace_id,
        "source": {"phase": _PHASE, **obj(handoff.get("source"))},
        "target": obj(handoff.get("target")),
        "context": _context(obj(handoff.get("context"))),
        "payload": payload,
        "meta": _meta(obj(handoff.get("meta")), kept=payload is handoff.get("payload")),
    }
    whole = {"handoff": lifted}
    lifted["meta"]["token_count"] = min(round(estimate(compact(whole).decode("utf-8", "replace"))), _MOST_TOKENS)
    return whole


def usable_trace_id(given: str | None) -> str | None:
    """A trace id from beside the document, where version 3.0 would take it."""
    return given if given and is_uuid(given) else None


def _context(context: Mapping[str, Any]) -> dict[str, Any]:
    if "summary" in context:
        return dict(context)
    prompt = context.get("original_prompt")
    text = prompt.strip() if isinstance(prompt, str) else ""
    summary = text if len(text) <= _MAX_SUMMARY else f"{text[: _MAX_SUMMARY - 3]}..."
    return {"summary": summary, **context}


def _payload(handoff: Document, strangers: dict[str, Any]) -> Any:
    """The payload itself where it fits as it is."""
    given = handoff.get("payload")
    if isinstance(given, dict) and isinstance(given.get("working"), dict):
        return {**given, "working": _joined(given["working"], strangers)} if strangers else given
    if isinstance(given, dict):
        return {"working": _joined(given, strangers)}
    return {"working": _joined({} if given is None else {"payload": given}, strangers)}


def _joined(working: dict[str, Any], strangers: dict[str, Any]) -> dict[str, Any]:
    """Both; a name that stands in both is told apart by its old place."""
    return {**working, **{name if name not in working else f"handoff.{name}": item for name, item in strangers.items()}}


def _meta(meta: Mapping[str, Any], *, kept: bool) -> dict[str, Any]:
    """A hash and a size hold on only for a payload that is the same."""
    dropped = ("token_count",) if kept else _OF_THE_OLD
    return {"confidence": _CONFIDENCE, **{name: value for name, value in meta.items() if name not in dropped}}
