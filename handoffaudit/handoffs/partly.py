"""What can be read of a submission that has something wrong beside its document: who hands what to whom, and where it
stands, so that its sender finds it again."""

from typing import Any

import msgspec
from django.conf import settings

from handoffaudit.validation import formats
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.submission import UNREADABLE
from handoffaudit.validation.text import MAX_TEXT, storable

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BOM = b"\xef\xbb\xbf"


def read_partly(sent: bytes) -> tuple[Envelope, Record | None]:
    """What stands beside the document as far as it is usable, and the document's record where it can be read."""
    try:
        fields = _FIELDS.decode(sent.removeprefix(_BOM))
    except UNREADABLE:
        return Envelope(), None
    # Not `retry_of`: what was sent with an error takes nobody's place.
    beside = Envelope(
        trace_id=_text(fields, "trace_id"),
        parent_handoff_id=_text(fields, "parent_handoff_id"),
        handoff_id=_text(fields, "handoff_id"),
        agent=_text(fields, "agent"),
    )
    document, issues = parse_json(bytes(fields.get("document", b"")), max_depth=settings.MAX_NESTING)
    declared = _text(fields, "format")
    known = declared if declared in formats.BY_NAME else None
    return beside, None if issues else formats.read(document, known, beside).record


def _text(fields: dict[str, Any], name: str) -> str | None:
    if name not in fields:
        return None
    try:
        value = msgspec.json.decode(fields[name], type=str)
    except UNREADABLE:
        return None
    return value if value and len(value) <= MAX_TEXT and storable(value) else None
