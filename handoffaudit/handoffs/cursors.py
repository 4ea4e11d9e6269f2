"""Cursors of lists, and the ids that stand at a point in time."""

import uuid
from datetime import datetime

from handoffaudit.handoffs.filters import BadFilter


def first_id_at(moment: datetime) -> uuid.UUID:
    """The least UUIDv7 of that millisecond: a period becomes a range of primary keys."""
    return uuid.UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


def cursor_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise BadFilter("cursor", text[:40], "use the value of `next` from the page before, as it was.") from None
