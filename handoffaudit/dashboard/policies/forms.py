"""Forms of all policy editors: drafts, fields, scopes of a dry run, and labels of changes."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

import orjson
from django.http import QueryDict
from pydantic.fields import FieldInfo

from handoffaudit.dashboard.safe_text import cut
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.values import MOST_BYTES, InvalidPolicy, PolicyError, check_keys, is_amount, is_choice
from handoffaudit.policy.versions import Table

Choices = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """An input of a form.

    `choices` (value and label) makes the input a menu, `is_number` a field for a whole number, `is_decimal` a field
    for any number, and `is_switch` a checkbox. `height` is the number of lines of a longer text.
    """

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
    """Return a menu whose entries explain each value."""
    return [
        (str(value), f"{value}: {meaning}" if value and meaning else str(value) or meaning)
        for value, meaning in words.items()
    ]


def plain_menu(values: Iterable[str]) -> Choices:
    return [(value, value) for value in values]


def field_of(name: str, info: FieldInfo, value: Any, error: str = "") -> Field:
    """Return the input of a field of a policy's model: its title is the label, its description the help."""
    of_type = info.annotation
    if is_amount(name) and isinstance(value, float) and value.is_integer():
        # A person types 50000, not 50000.0.
        value = int(value)
    return Field(
        name=name,
        label=info.title or name,
        help=info.description or "",
        value=value,
        error=error,
        choices=plain_menu(of_type) if is_choice(of_type) else None,
        is_number=of_type is int,
        is_decimal=of_type is float,
        is_switch=of_type is bool,
        required=True,
    )


def read_fields(fields: Mapping[str, FieldInfo], given: QueryDict) -> dict[str, Any]:
    """Return the submitted values of the fields of a policy's model."""
    return {
        name: name in given if info.annotation is bool else read_text(info, given.get(name, ""))
        for name, info in fields.items()
    }


def read_text(info: FieldInfo, text: str) -> Any:
    """Return a submitted text as a number if the field takes numbers, or else unchanged.

    In a field for numbers, a text that is not a number also stays text, so that the page can show and refuse the text.
    """
    try:
        return info.annotation(text) if info.annotation in (int, float) else text
    except ValueError:
        return text


LONGEST_VALUE = 200

LONGEST_PLACE = 300

MOST_OF_A_VERSION = 50

MOST_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Line:
    """A change as a line of text; `old` is None if `field` was added, and `new` is None if `field` was removed."""

    type_name: str
    field: str
    old: str | None
    new: str | None

    @property
    def said(self) -> str:
        """Return the field's name for use inside a sentence."""
        return self.field[:1].lower() + self.field[1:]


@dataclass(frozen=True, slots=True)
class Lines:
    """The first lines of a list, and the number of further lines."""

    shown: Sequence[Line]
    more: int

    @classmethod
    def of(cls, lines: Sequence[Line], most: int) -> "Lines":
        return cls(lines[:most], max(0, len(lines) - most))


def format_value(value: Any) -> str:
    """Return a value as text; a boolean as "on" or "off"."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "nothing"
    if isinstance(value, int) and abs(value) < 10**18:
        return f"{value:,}"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_VALUE)


def format_optional(value: Any) -> str | None:
    """Return a value as text; None if there is no value."""
    return None if value is None else format_value(value)


def format_path(text: str) -> str:
    return cut(text, LONGEST_PLACE)


ALL_TYPES = "all"


@dataclass(frozen=True, slots=True)
class Scope:
    """The handoffs that a dry run covers: the last `most` of the handoffs received within `within`."""

    words: str
    most: int = dry_runs.MOST
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

# A dry run of prompts pays for LLM calls, so its scopes are smaller. The first entry is the default.
MODEL_SCOPES = {
    "50": SCOPES["50"],
    "10": Scope("the last 10 handoffs", most=10),
    "200": SCOPES["200"],
    "500": Scope("the last 500 handoffs", most=500),
}

R = TypeVar("R")

MOST_DIGITS = 9

# Submitted texts are cut to this many characters, which bounds the page. A cut text is still too long to be saved, and
# is refused.
LONGEST_KEPT = 4 * MOST_BYTES

LONGEST_LINE = 10_000


@dataclass(kw_only=True)
class Draft(ABC, Generic[R]):
    """A draft of a policy, made on the table of version `base_version`.

    `tried` and `types` choose the handoffs of a dry run. `errors` holds messages by field; the key "" is for the whole
    draft. `theirs` holds the differences between the draft and a version that somebody else saved meanwhile; None if
    there is no such version. `gone` is true if somebody deleted the edited row. `noun` names the edited thing.
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
        """Return all rows with this change applied; raise `InvalidPolicy` for a bad draft."""

    @abstractmethod
    def refuse(self, invalid: InvalidPolicy) -> None:
        """Store each error at its field."""

    @abstractmethod
    def meet(self, current: Table[R]) -> None:
        """Compare the draft with a version that somebody else saved, so that the page shows both.

        A second save is then made on the new version.
        """

    @abstractmethod
    def list_affected_types(self, now: Table[R], rows: Iterable[R]) -> list[str]:
        """Return the handoff types whose verdicts can change when `now` becomes `rows`; an empty list means all."""

    def holds_back(self, trial: Trial) -> bool:
        """Return whether a planned dry run must wait. If so, store the reason in the draft.

        Raise `InvalidPolicy` if the dry run cannot run at all.
        """
        return False

    @property
    def edited_row(self) -> str | None:
        """Return the name of the edited row, empty for a new row, or None for an editor of all rows."""
        return None

    @property
    def is_new(self) -> bool:
        return self.edited_row == ""

    @property
    def may_delete(self) -> bool:
        return bool(self.edited_row) and not self.gone

    @property
    @abstractmethod
    def gone_text(self) -> str:
        """Return the message to show if somebody deleted the edited row."""

    @property
    def scopes(self) -> Choices:
        """Return the choices of handoffs for a dry run."""
        return [(value, scope.words) for value, scope in SCOPES.items()]

    @property
    def row_error(self) -> str:
        return self.errors.get("", "")

    def keep(self, name: str, error: PolicyError, where: str = "") -> None:
        """Store the error at the field `name`; `where` is the place inside that field."""
        text = f"{error.message} {error.remedy}"
        self.errors.setdefault(name, f"{format_path(where)}: {text}" if where else text)


def number(text: str) -> int | None:
    """Return a whole number from an address or a form, such as a version; None for a text that is not 1 to 9 digits."""
    digits = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return int(text) if digits else None


def form_values(given: QueryDict) -> dict[str, Any]:
    """Return the values that every editor sends: the base version, the note, and the scope of a dry run."""
    base = number(given.get("base_version", ""))
    return {
        "base_version": -1 if base is None else base,
        "note": line_of(given, "note"),
        "tried": line_of(given, "tried") or USUAL,
        "types": line_of(given, "types"),
    }


def text_of(given: QueryDict, name: str) -> str:
    """Return the text of a long field with plain line ends, cut to the length that the page can show again."""
    return given.get(name, "")[:LONGEST_KEPT].replace("\r\n", "\n")


def line_of(given: QueryDict, name: str) -> str:
    """Return the text of a one-line field, cut to the length that the page can show again."""
    return given.get(name, "")[:LONGEST_LINE]


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, stripped and without empty lines."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def read_json(text: str) -> Any:
    """Parse JSON; raise ValueError with the line of an error, also for a key that an object has twice."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"This is not JSON: line {error.lineno}, column {error.colno}, {error.msg}.") from error
    check_keys(text)
    return value
