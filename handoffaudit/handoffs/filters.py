"""Filters and cursors of handoff lists, parsed from a URL query and written back to one."""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import State

FLAGS = ("parked", "shadowed", "warnings", "overdue", "unverified", "flagged", "open")

_LONGEST_NUMBER = 12

_RELATIVE = re.compile(r"(\d{1,4})([hd])\Z")

_TEXTS = {
    "type": "handoff_type",
    "source": "source",
    "target": "target",
    "code": "code",
    "trace": "trace",
    "flag": "flag",
    "handoff_id": "handoff_id",
    "group": "group",
    "decided_by": "decided_by",
}

PARAMETERS = ("state", *_TEXTS, "since", "until", "quality_min", "quality_max", "from", "to")


class FilterError(Exception):
    """An invalid filter: the field, its value, and the remedy."""

    def __init__(self, field: str, value: str, remedy: str) -> None:
        super().__init__(f"{field} is {value!r}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a list of handoffs; an empty text or None does not narrow the list.

    `since` is inclusive, `until` exclusive. `period` is the text of a relative `since` (`24h`, `7d`), so that a link
    stays relative. The form fields `from` and `to` are whole days in UTC, including the last day; `to_query` writes
    only `since` and `until`.
    """

    state: tuple[str, ...] = ()
    handoff_type: str = ""
    source: str = ""
    target: str = ""
    code: str = ""
    trace: str = ""
    since: datetime | None = None
    until: datetime | None = None
    quality_min: float | None = None
    quality_max: float | None = None
    flag: str = ""
    period: str = ""
    handoff_id: str = ""
    # The number of a finding group.
    group: str = ""
    # The name of a person or API key whose decision has not been undone.
    decided_by: str = ""

    @classmethod
    def from_query(cls, params: QueryDict | Mapping[str, str]) -> "Filters":
        texts = {field: params.get(name, "").strip() for name, field in _TEXTS.items()}
        for name, field in _TEXTS.items():
            if "\x00" in texts[field] or len(texts[field]) > 200:
                raise FilterError(name, texts[field][:40], "use a text of at most 200 characters without NUL.")
        if texts["flag"] and texts["flag"] not in FLAGS:
            raise FilterError("flag", texts["flag"], f"use one of {', '.join(FLAGS)}.")
        if texts["group"] and not is_number(texts["group"]):
            raise FilterError("group", texts["group"][:40], "use the number in the address of a finding's page.")
        since = params.get("since", "").strip()
        return cls(
            state=_parse_states(params),
            since=_parse_day("from", params) or _parse_moment("since", since),
            until=_parse_day("to", params, later=1) or _parse_moment("until", params.get("until", "").strip()),
            quality_min=_parse_score("quality_min", params),
            quality_max=_parse_score("quality_max", params),
            period=since if _RELATIVE.match(since) and not params.get("from", "").strip() else "",
            **texts,
        )

    def to_query(self) -> str:
        pairs: list[tuple[str, str]] = [("state", state) for state in self.state]
        pairs += [(name, getattr(self, field)) for name, field in _TEXTS.items() if getattr(self, field)]
        if self.period or self.since:
            pairs.append(("since", self.period or _format_moment(self.since)))
        if self.until:
            pairs.append(("until", _format_moment(self.until)))
        for name in ("quality_min", "quality_max"):
            if getattr(self, name) is not None:
                pairs.append((name, f"{getattr(self, name):g}"))
        return urlencode(pairs)

    @property
    def first_day(self) -> str:
        """Return `since` as a day for the form; empty if `since` is not a whole day."""
        return "" if self.period else _whole_day(self.since)

    @property
    def last_day(self) -> str:
        return _whole_day(self.until, timedelta(days=1))

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) not in ((), "", None) for field in fields(self))


def is_number(text: str) -> bool:
    """Return whether the text can be the number of a database row."""
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER


def _format_moment(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""


def _parse_states(params: QueryDict | Mapping[str, str]) -> tuple[str, ...]:
    given = params.getlist("state") if isinstance(params, QueryDict) else [params.get("state", "")]
    states = [part.strip() for value in given for part in value.split(",") if part.strip()]
    for state in states:
        if state not in State.values:
            raise FilterError("state", state[:40], f"use one of {', '.join(State.values)}.")
    return tuple(dict.fromkeys(states))


def _parse_moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    relative = _RELATIVE.match(text)
    if relative:
        number = int(relative[1])
        return timezone.now() - (timedelta(hours=number) if relative[2] == "h" else timedelta(days=number))
    try:
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(text)):
            moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    except ValueError:
        moment = None
    if moment is None or not 1970 <= moment.year <= 9000:
        raise FilterError(
            name, text[:40], "use a date (2026-02-15), a date and time (2026-02-15T09:30:00Z) or 24h, 7d, 30d."
        )
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_day(name: str, params: QueryDict | Mapping[str, str], later: int = 0) -> datetime | None:
    text = params.get(name, "").strip()
    try:
        day = parse_date(text) if text else None
    except ValueError:
        day = None
    if day is None or not 1970 <= day.year <= 9000:
        if text:
            raise FilterError(name, text[:40], "use a day like 2026-02-15.")
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=later)


def _whole_day(moment: datetime | None, less: timedelta = timedelta()) -> str:
    if moment is None or moment.astimezone(UTC).time() != time():
        return ""
    return f"{moment.astimezone(UTC) - less:%Y-%m-%d}"


def _parse_score(name: str, params: QueryDict | Mapping[str, str]) -> float | None:
    text = params.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise FilterError(name, text[:40], "use a number from 0 to 1.")
    return value


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the least UUIDv7 of that millisecond, which turns a period into a range of primary keys."""
    return uuid.UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


def parse_cursor(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise FilterError("cursor", text[:40], "use the value of `next` from the page before, as it was.") from None


# A function that returns rows of a tenant's finding group, which name each handoff in `handoff`.
GroupMembers = Callable[[Tenant, int], "QuerySet[Any]"]

_group_members: list[GroupMembers] = []


def set_group_members(members: GroupMembers) -> None:
    _group_members[:] = [members]


def members_of_group(tenant: Tenant, group: int) -> "QuerySet[Any]":
    return _group_members[0](tenant, group)
