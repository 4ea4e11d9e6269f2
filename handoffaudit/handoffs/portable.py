"""Stored handoffs as submissions again, one a line: to bring them in elsewhere, or to measure layers on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import msgspec
import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from handoffaudit.handoffs.parts import parts

DECIDED = (State.APPROVED, State.DECLINED)
_PART = 500
_TEXTS = ("format", "handoff_id", "trace_id", "parent_handoff_id", "retry_of")
# Only spaces may stand between the parts of a JSON document, so these never belong to a text in it.
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


@dataclass(frozen=True, slots=True)
class Line:
    """`text`: the submission as one line of JSON, without its end; None where what was sent is no JSON, or
    `is_removed` by retention."""

    handoff: Handoff
    text: bytes | None
    is_removed: bool = False


def lines(tenant: Tenant, filters: Filters, *, reviews: bool = False) -> Iterator[Line]:
    """Those that match, the oldest first, read a few at a time; with `reviews`, those that a person decided, and what
    was decided beside each (`docs/eval.md`)."""
    rows = queries.matching(tenant, filters).order_by("id")
    if reviews:
        rows = rows.filter(state__in=DECIDED)
    after = UUID(int=0)
    while some := list(rows.filter(id__gt=after)[:_PART]):
        for part in parts(some):
            bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in part])
            for handoff in part:
                body = bodies.get(handoff.pk)
                text = _submission(handoff, body, reviews=reviews) if body else None
                yield Line(handoff, text, is_removed=body is None)
        after = some[-1].pk


def _submission(handoff: Handoff, body: HandoffBody, *, reviews: bool) -> bytes | None:
    document = bytes(body.original)
    if not _is_json(document):
        return None
    fields = {"document": document}
    fields |= {name: orjson.dumps(value) for name in _TEXTS if (value := getattr(handoff, name))}
    if handoff.step is not None:
        fields["step"] = orjson.dumps(handoff.step)
    if handoff.source_agent_id:
        fields["agent"] = orjson.dumps(handoff.source_agent_id)
    if handoff.adapt:
        fields["adapt"] = b"true"
    fields |= {name: bytes(raw) for name in ("context", "evidence") if (raw := getattr(body, name)) is not None}
    if reviews:
        fields["review"] = orjson.dumps({"decision": handoff.state, "codes": handoff.codes})
    inside = b", ".join(b'"%s": %s' % (name.encode(), value) for name, value in fields.items())
    return b"{%s}" % inside.translate(_LINE_ENDS)


def _is_json(document: bytes) -> bool:
    try:
        msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True
