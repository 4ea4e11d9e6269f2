"""Lists of handoffs by score, the lowest first: pages and neighbours, by steps along the index of scores.

No index combines the score with the other filters. A list therefore steps along the index of scores, and looks up
which of these handoffs match: its cost depends on the steps, which are bounded, and not on the plan of the database.
"""

import math
import uuid
from typing import Final, NamedTuple

from django.db.models import QuerySet

from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.filters import CURSOR_REMEDY
from handoffaudit.handoffs.models import Handoff

# A page looks at no more handoffs. If few of them match, the next page continues from there.
MOST_STEPS: Final = 5_000

_AT_ONCE: Final = 500


class _Place(NamedTuple):
    score: float
    id: uuid.UUID


def list_rows(
    rows: "QuerySet[Handoff]", matching: "QuerySet[Handoff]", cursor: str, limit: int
) -> tuple[list[Handoff], str | None]:
    """Return the next handoffs of `matching` and the cursor of the next page; `rows` are all handoffs of the tenant.

    A page may have fewer than `limit` handoffs and still have a next page. Raise `FilterError` for an invalid cursor.
    """
    after = _parse_cursor(cursor) if cursor else None
    found: list[Handoff] = []
    number, steps = limit + 1, 0
    while True:
        places = _read(rows, after, number)
        found += _pick(matching, places)
        if len(found) > limit:
            return found[:limit], _format_cursor(_place_of(found[limit - 1]))
        if len(places) < number:
            return found, None
        after, steps, number = places[-1], steps + len(places), _AT_ONCE
        if steps >= MOST_STEPS:
            return found, _format_cursor(after)


def find_next(
    rows: "QuerySet[Handoff]", matching: "QuerySet[Handoff]", handoff: Handoff, *, is_back: bool
) -> Handoff | None:
    """Return the next handoff of `matching` after a handoff, or before it; None if no near one matches."""
    after: _Place | None = _place_of(handoff)
    number, steps = 1, 0
    while steps < MOST_STEPS:
        places = _read(rows, after, number, is_back=is_back)
        if found := _pick(matching, places):
            return found[0]
        if len(places) < number:
            return None
        after, steps, number = places[-1], steps + len(places), _AT_ONCE
    return None


def _read(rows: "QuerySet[Handoff]", after: _Place | None, number: int, *, is_back: bool = False) -> list[_Place]:
    """Return the next places of the index.

    Many handoffs share a score, so the handoffs with the same score and those with other scores are two queries.
    """
    sign, later = ("-", "lt") if is_back else ("", "gt")
    rows = rows.filter(score__lt=1)
    parts = [rows.order_by(f"{sign}score", f"{sign}id")]
    if after:
        # With an equation, SQLite would not see that the partial index of scores has these rows.
        same = parts[0].filter(score__gte=after.score, score__lte=after.score, **{f"id__{later}": after.id})
        parts = [same, parts[0].filter(**{f"score__{later}": after.score})]
    found: list[_Place] = []
    for part in parts:
        if len(found) < number:
            places = part.values_list("score", "id")[: number - len(found)]
            found += [_Place(score or 0.0, pk) for score, pk in places]
    return found


def _pick(matching: "QuerySet[Handoff]", places: list[_Place]) -> list[Handoff]:
    found = {row.pk: row for row in matching.order_by().filter(pk__in=[place.id for place in places])}
    return [found[place.id] for place in places if place.id in found]


def _place_of(handoff: Handoff) -> _Place:
    return _Place(1.0 if handoff.score is None else handoff.score, handoff.pk)


def _format_cursor(place: _Place) -> str:
    return f"{place.score!r}:{place.id}"


def _parse_cursor(text: str) -> _Place:
    score, _, pk = text.partition(":")
    try:
        place = _Place(float(score), uuid.UUID(pk))
    except ValueError:
        place = None
    if place is None or not math.isfinite(place.score):
        raise FilterError("cursor", text[:40], CURSOR_REMEDY)
    return place
