"""What can be read of a submission that has something wrong beside its document: who hands what to whom, and where it
stands, so that its sender finds it again."""

from django.conf import settings

from handoffaudit.validation import formats
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.submission import UNREADABLE, fields_of, usable_text


def read_partly(sent: bytes) -> tuple[Envelope, Record | None]:
    """What stands beside the document as far as it is usable, and the document's record where it can be read."""
    try:
        fields = fields_of(sent)
    except UNREADABLE:
        return Envelope(), None
    # Not `retry_of`: what was sent with an error takes nobody's place.
    beside = Envelope(
        trace_id=usable_text(fields.get("trace_id")),
        parent_handoff_id=usable_text(fields.get("parent_handoff_id")),
        handoff_id=usable_text(fields.get("handoff_id")),
        agent=usable_text(fields.get("agent")),
    )
    document, issues = parse_json(bytes(fields.get("document", b"")), max_depth=settings.MAX_NESTING)
    declared = usable_text(fields.get("format"))
    known = declared if declared in formats.BY_NAME else None
    return beside, None if issues else formats.read(document, known, beside).record
