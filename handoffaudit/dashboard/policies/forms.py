"""Forms of all policy editors: drafts, fields, scopes of a dry run, and labels of changes."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

import orjson
from django.http import QueryDict

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.handoffs.dry_runs import run
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import MOST_BYTES
from handoffaudit.policy.versions import Table

Choices = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """An input: `choices` (value and words) for a menu, `is_number` for a whole number, `is_decimal` for any number,
    `is_switch` for a box to tick, `height` in lines for a longer text."""

    name: str
    label: str
    value: Any
    help: str = ""
    error: str = ""
    choices: Choices | None = None
    is_number: bool = False
    is_decimal: bool = False
    is_switch: bool = False
    is_code: bool = False
    height: int = 0
    required: bool = False


def menu(words: Mapping[Any, str]) -> Choices:
    """A menu whose entries say what each value means."""
    return [
        (str(value), f"{value}: {meaning}" if value and meaning else str(value) or meaning)
        for value, meaning in words.items()
    ]


def plain_menu(values: Iterable[str]) -> Choices:
    return [(value, value) for value in values]


LONGEST_VALUE = 200

LONGEST_PLACE = 300

MOST_OF_A_VERSION = 50

MOST_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Line:
    """A change as a line of text: `old` None where `field` of the row came, `new` None where it went."""

    type_name: str
    field: str
    old: str | None
    new: str | None

    @property
    def said(self) -> str:
        """The field inside a sentence."""
        return self.field[:1].lower() + self.field[1:]


@dataclass(frozen=True, slots=True)
class Lines:
    """So many lines, and how many more there are."""

    shown: Sequence[Line]
    more: int

    @classmethod
    def of(cls, lines: Sequence[Line], most: int) -> "Lines":
        return cls(lines[:most], max(0, len(lines) - most))


def format_value(value: Any) -> str:
    """A value as text; a switch as on or off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "nothing"
    if isinstance(value, int) and abs(value) < 10**18:
        return f"{value:,}"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_VALUE)


def format_optional(value: Any) -> str | None:
    """The same, where what is not there is said otherwise."""
    return None if value is None else format_value(value)


def format_path(text: str) -> str:
    return cut(text, LONGEST_PLACE)


ALL_TYPES = "all"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which handoffs a draft is tried on: the last `most` of those received within `within`."""

    words: str
    most: int = run.MOST
    within: timedelta | None = None


SCOPES = {
    "50": Scope("the last 50 handoffs", most=50),
    "200": Scope("the last 200 handoffs", most=200),
    "1000": Scope("the last 1,000 handoffs", most=1000),
    "24h": Scope("the last 24 hours", within=timedelta(hours=24)),
    "7d": Scope("the last 7 days", within=timedelta(days=7)),
    "30d": Scope("the last 30 days", within=timedelta(days=30)),
}

USUAL = "200"

# Where the model is asked, each handoff costs; the first is the usual one.
MODEL_SCOPES = {
    "50": SCOPES["50"],
    "10": Scope("the last 10 handoffs", most=10),
    "200": SCOPES["200"],
    "500": Scope("the last 500 handoffs", most=500),
}

R = TypeVar("R")

MOST_DIGITS = 9

# More than may be saved, so that what is too long is refused and not cut; and no page grows with what was sent.
LONGEST_KEPT = 4 * MOST_BYTES

LONGEST_LINE = 10_000


@dataclass(kw_only=True)
class Draft(ABC, Generic[R]):
    """`base_version`: the table that the change is made on. `tried` and `types`: on what it is to be tried.

    `errors`: by field, "" what is wrong with the whole. `theirs`: lines of what somebody else saved meanwhile against
    what stands here; None where nobody did. `gone`: they deleted it. `noun`: what is edited.
    """

    base_version: int
    note: str = ""
    tried: str = USUAL
    types: str = ""
    noun: ClassVar[str] = "row"
    can_be_tried: ClassVar[bool] = True
    offers_types: ClassVar[bool] = False
    errors: dict[str, str] = field(default_factory=dict)
    theirs: list[Line] | None = None
    gone: bool = False

    @abstractmethod
    def rows(self, now: Table[R]) -> Iterable[R]:
        """All rows, with this change made. Raises `InvalidPolicy`."""

    @abstractmethod
    def refuse(self, invalid: InvalidPolicy) -> None:
        """Keeps what is wrong, at its field."""

    @abstractmethod
    def meet(self, current: Table[R]) -> None:
        """Somebody saved meanwhile: show both, and let a second save be made on the new version."""

    @abstractmethod
    def touched(self, tenant: Tenant, now: Table[R], rows: Iterable[R]) -> list[str]:
        """The handoff types that are judged otherwise where the table `now` becomes `rows`; none named: all."""

    def holds_back(self, trial: Trial) -> bool:
        """Whether a planned trial of it does not begin yet; the draft then says why. Raises `InvalidPolicy`."""
        return False

    @property
    @abstractmethod
    def gone_text(self) -> str:
        """What is said where it is gone."""

    @property
    def scopes(self) -> Choices:
        """On which handoffs it can be tried."""
        return [(value, scope.words) for value, scope in SCOPES.items()]

    @property
    def row_error(self) -> str:
        return self.errors.get("", "")

    def keep(self, name: str, error: PolicyError, where: str = "") -> None:
        """The error at the field of that name; `where` in the field it is."""
        text = f"{error.message} {error.remedy}"
        self.errors.setdefault(name, f"{format_path(where)}: {text}" if where else text)


def number(text: str) -> int | None:
    """A version's number out of an address or a form."""
    digits = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return int(text) if digits else None


def form_values(given: QueryDict) -> dict[str, Any]:
    """What every editor sends: on which version, and the note."""
    base = number(given.get("base_version", ""))
    return {
        "base_version": -1 if base is None else base,
        "note": line_of(given, "note"),
        "tried": line_of(given, "tried") or USUAL,
        "types": line_of(given, "types"),
    }


def text_of(given: QueryDict, name: str) -> str:
    """A long field's text with plain line ends, as much of it as can be shown again."""
    return given.get(name, "")[:LONGEST_KEPT].replace("\r\n", "\n")


def line_of(given: QueryDict, name: str) -> str:
    """The same of a field of one line."""
    return given.get(name, "")[:LONGEST_LINE]


def lines_of(text: str) -> list[str]:
    """What stands in its lines, without the empty ones."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def read_json(text: str) -> Any:
    """Raises ValueError, which tells the line and the column."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"This is no JSON: line {error.lineno}, column {error.colno}, {error.msg}.") from error
