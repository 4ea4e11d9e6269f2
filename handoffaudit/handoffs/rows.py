"""The only seam between rows and the core's values."""

from typing import Any

import orjson

from handoffaudit.handoffs.models import Handoff, HandoffBody
from handoffaudit.validation import formats
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope, Reading, Record


def envelope_of(handoff: Handoff, body: HandoffBody) -> Envelope:
    return Envelope(
        context=_loaded(body.context),
        evidence=_loaded(body.evidence),
        trace_id=handoff.trace_id or None,
        parent_handoff_id=handoff.parent_handoff_id or None,
        retry_of=handoff.retry_of or None,
        step=handoff.step,
        handoff_id=handoff.handoff_id,
        agent=handoff.source_agent_id or None,
        adapt=handoff.adapt,
    )


def reading_of(handoff: Handoff, body: HandoffBody) -> Reading:
    """The document read again from its stored bytes, as it was read when it came."""
    document, issues = parse_json(bytes(body.original))
    if issues:
        return Reading(record=None, issues=issues, format=handoff.format)
    return formats.read(document, handoff.format or None, envelope_of(handoff, body))


def record_of(handoff: Handoff, body: HandoffBody) -> Record | None:
    """None where the document can't be read."""
    return reading_of(handoff, body).record


def _loaded(raw: Any) -> Any:
    return orjson.loads(bytes(raw)) if raw is not None else None
