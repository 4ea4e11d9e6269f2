"""Where in the queue somebody is, as the address has it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils import timezone

from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs.filters import FilterError, Filters
from handoffaudit.handoffs.review.queue import VIEWS
from handoffaudit.handoffs.transitions import REVIEWABLE

AGES = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1), "7d": timedelta(days=7)}
AGE_NAMES = {"1h": "over an hour", "4h": "over 4 hours", "1d": "over a day", "7d": "over a week"}
_LABELS = {
    "q": "Search",
    "state": "State",
    "type": "Type",
    "source": "From",
    "target": "To",
    "code": "Reason",
    "age": "Waiting",
    "group": "Findings",
}
_LONGEST = 200
_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Place:
    """The fields are the names of the address's parameters; empty ones are not written."""

    view: str = ""
    q: str = ""
    state: str = ""
    type: str = ""
    source: str = ""
    target: str = ""
    code: str = ""
    age: str = ""
    group: str = ""
    cursor: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> "Place":
        """Raises BadFilter where a value can't be what is asked for."""
        asked = request.POST if request.method == "POST" else request.GET
        return cls.read({name: asked.get(name, "").strip() for name in cls.__slots__})

    @classmethod
    def read(cls, values: Mapping[str, str]) -> "Place":
        for name, value in values.items():
            if "\x00" in value or len(value) > _LONGEST:
                raise FilterError(name, value[:40], f"use a text of at most {_LONGEST} characters without NUL.")
        place = cls(**values)
        if place.view not in ("", *VIEWS):
            raise FilterError("view", place.view[:40], f"use one of {', '.join(VIEWS)}.")
        if place.state not in ("", *REVIEWABLE):
            raise FilterError("state", place.state[:40], f"use one of {', '.join(sorted(REVIEWABLE))}.")
        if place.age not in ("", *AGES):
            raise FilterError("age", place.age[:40], f"use one of {', '.join(AGES)}.")
        if place.group and not (place.group.isdecimal() and len(place.group) <= _LONGEST_NUMBER):
            raise FilterError("group", place.group[:40], "use the number in the address of a finding's page.")
        return replace(place, view="") if place.view == "all" else place

    @property
    def given(self) -> list[tuple[str, str]]:
        """What is asked for, as a form's hidden fields or an address carry it."""
        return [(name, value) for name in self.__slots__ if (value := getattr(self, name))]

    @property
    def query(self) -> str:
        return f"?{urlencode(self.given)}" if self.given else ""

    @property
    def is_narrowed(self) -> bool:
        return any(name not in ("view", "cursor") for name, _ in self.given)

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """What it is narrowed by: the label, the value, and the query without it."""
        values = {"age": AGE_NAMES.get(self.age, ""), "code": code_title(self.code) if self.code else ""}
        return [
            (_LABELS[name], values.get(name) or value, replace(self, **{name: "", "cursor": ""}).query)
            for name, value in self.given
            if name in _LABELS
        ]

    @classmethod
    def or_all(cls, request: HttpRequest) -> "Place":
        """As `of`; the whole queue where it can't be read."""
        try:
            return cls.of(request)
        except FilterError:
            return cls()

    def but(self, **changes: str) -> "Place":
        return replace(self, **changes)

    def filters(self, now: datetime | None = None) -> Filters:
        """What the fields narrow by; `q` and `group` are looked up elsewhere. `now`: the moment that ages end at."""
        return Filters(
            state=(self.state,) if self.state else (),
            handoff_type=self.type,
            source=self.source,
            target=self.target,
            code=self.code,
            until=(now or timezone.now()) - AGES[self.age] if self.age else None,
        )
