"""Handoffs taken a few at a time, so that what was sent of them fits into memory together."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db.models import BinaryField, F, Value
from django.db.models.functions import Coalesce, Length

from handoffaudit.handoffs.models import Handoff, HandoffBody

# Read, it can take fifty times as much.
PART_BYTES = 4 * 1024 * 1024


def parts(handoffs: Sequence[Handoff]) -> Iterator[list[Handoff]]:
    """In their order; one that is larger than a part is one by itself."""
    sizes = _sizes(handoffs) if len(handoffs) > 1 else {}
    part: list[Handoff] = []
    size = 0
    for handoff in handoffs:
        its = sizes.get(handoff.pk, 0)
        if part and size + its > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(handoff)
        size += its
    if part:
        yield part


def _sizes(handoffs: Sequence[Handoff]) -> dict[UUID, int]:
    """Of each the bytes of its document, context and evidence."""
    nothing = Value(b"", output_field=BinaryField())
    beside = Length(Coalesce("context", nothing)) + Length(Coalesce("evidence", nothing))
    rows = HandoffBody.objects.filter(pk__in=[handoff.pk for handoff in handoffs])
    return dict(rows.values_list("pk", F("handoff__size_bytes") + beside))
