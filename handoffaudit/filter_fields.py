"""Form fields of filters: each reads its value from an address, writes it back and shows it.

`handoffaudit/filter_set.py` combines the fields into the filters of a list.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Self

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

Params = QueryDict | Mapping[str, str]

# Values and labels of the choices of a filter.
Choices = Mapping[str, str]

# The options of a control: values and labels, groups of these under a heading, or values that only the database knows.
Options = Mapping[str, str | Choices] | Sequence[str]

PERIODS: Choices = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}

SINCE = "From this time: a date, a date and time, or 24h, 7d, 30d ago."

UNTIL = "Before this time (exclusive): a date (from 00:00 UTC), a date and time, or 24h, 7d, 30d ago."

LONGEST = 200

_LONGEST_NUMBER = 12

_RELATIVE = re.compile(r"(\d{1,4})([hd])\Z")


class FilterError(Exception):
    """An invalid filter: the field, its value, and the remedy."""

    def __init__(self, field: str, value: str, remedy: str) -> None:
        super().__init__(f"{field} is {value!r}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class FilterField(forms.Field):
    """A form field that filters a list, and that reads its value from an address and writes it back.

    `label` names the filter on the page; a filter without a label is not shown there. `help_text` describes the
    parameter of the API, with `example`. `name` is the name of the parameter, by default the name of the attribute.
    `where` is the lookup in the database that must equal the value, or a function that returns the condition for the
    value. If a filter has no `where`, the queries of the list apply it themselves. `empty_label` is the first option of
    a select, if not empty. `options` are the choices that the page offers.
    """

    remedy = ""
    # The value that does not narrow the list.
    nothing: Any = ""
    # Whether the page lists the field among the active filters. A page does not list an order.
    narrows = True

    def __init__(
        self,
        label: str = "",
        help_text: str = "",
        *,
        name: str = "",
        where: str | Callable[[Any], Q | None] = "",
        example: str = "",
        choices: Choices | None = None,
        empty_label: str = "Any",
        widget: forms.Widget | None = None,
    ) -> None:
        super().__init__(required=False, label=label, help_text=help_text, widget=widget)
        self.name, self.where, self.example = name, where, example
        self.choices, self.empty_label = choices or {}, empty_label
        self.options: Options = {value: text[:1].upper() + text[1:] for value, text in self.choices.items()}

    def __deepcopy__(self, memo: Any) -> Self:
        # A form copies its fields, and pages replace only `options` of a copy. A shallow copy is therefore enough.
        return copy(self)

    def check(self, name: str, text: str) -> Any:
        """Return the value of a text from an address. Raise `FilterError` for an invalid text."""
        try:
            return self.clean(text)
        except ValidationError as bad:
            raise FilterError(name, (bad.params or {}).get("value", text)[:40], self.remedy) from None

    def read_given(self, name: str, params: Params) -> Any:
        """Return the value in the address, unchecked."""
        return params.get(name, "").strip()

    def read(self, name: str, attribute: str, params: Params) -> dict[str, Any]:
        """Return the attributes of the filter set that the address gives. Raise `FilterError` for an invalid value."""
        text = self.read_given(name, params)
        return {attribute: self.check(name, text)} if text else {}

    def write(self, value: Any) -> list[str]:
        """Return the values of the parameter in an address."""
        return [str(value)]

    def show(self, value: Any) -> str:
        return self.choices.get(value) or str(value)

    def condition(self, value: Any) -> Q | None:
        """Return the condition of the value, or None if the queries of the list apply the filter."""
        if callable(self.where):
            return self.where(value)
        return Q((self.where, value)) if self.where else None


def quote_blanks(text: str) -> str:
    """Return the text for an address: in double quotes if the text begins or ends with a blank.

    A text that `_unquote` would change gets quotes, too. Without the quotes, the blanks would be cut off, and a link to
    an agent with such a name would list nothing.
    """
    return f'"{text}"' if text != text.strip() or _unquote(text) != text else text


def _unquote(text: str) -> str:
    """Return the text that `quote_blanks` put in quotes; any other text unchanged."""
    pairs = min(len(text) - len(text.lstrip('"')), len(text) - len(text.rstrip('"')))
    inner = text[pairs : len(text) - pairs]
    return text[1:-1] if pairs and inner != inner.strip() else text


class TextFilter(FilterField, forms.CharField):
    """A text; its choices are suggestions."""

    remedy = f"use a text of at most {LONGEST} characters without NUL."

    def to_python(self, value: Any) -> str:
        return _unquote(super().to_python(value) or "")

    def write(self, value: Any) -> list[str]:
        return [quote_blanks(str(value))]

    def validate(self, value: str) -> None:
        if "\x00" in value or len(value) > LONGEST:
            raise ValidationError("too long, or with NUL")


class ChoiceFilter(TextFilter):
    """One of the choices; `usual` is the choice of an address without the parameter."""

    widget = forms.Select

    def __init__(self, *args: Any, usual: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        if usual:
            self.nothing = usual

    @property
    def remedy(self) -> str:  # type: ignore[override]
        return f"use one of {', '.join(self.choices)}."

    def validate(self, value: str) -> None:
        if value not in self.choices:
            raise ValidationError("not a choice")


@dataclass(frozen=True, slots=True)
class Order:
    """An order of a list.

    `columns` are the columns by which rows are sorted, with `-` for a descending column. If the database sorts the
    rows, the last column is unique, and an index must begin with the tenant and have these columns. Without columns,
    the list ranks its rows itself. `where` is a condition: in this order, the list shows only the rows that meet it.
    """

    label: str
    columns: tuple[str, ...] = ()
    where: Q | None = None

    @property
    def is_descending(self) -> bool:
        return not self.columns or self.columns[0].startswith("-")


class SortFilter(ChoiceFilter):
    """The order of a list, one of `orders`; `usual` is the order of an address without the parameter."""

    narrows = False

    def __init__(self, *args: Any, orders: Mapping[str, Order], **options: Any) -> None:
        labels = {name: order.label for name, order in orders.items()}
        usual: dict[str, Any] = {"choices": labels, "empty_label": "", "widget": forms.HiddenInput()}
        super().__init__(*args, where=lambda name: orders[name].where, **usual | options)
        self.orders = orders


class ChoicesFilter(ChoiceFilter):
    """Some of the choices: the parameter may repeat, and its text may have several values with commas between."""

    widget = forms.CheckboxSelectMultiple  # type: ignore[assignment]
    nothing = ()

    def read_given(self, name: str, params: Params) -> list[str]:
        texts = params.getlist(name) if isinstance(params, QueryDict) else [params.get(name, "")]
        return [part.strip() for text in texts for part in text.split(",") if part.strip()]

    def read(self, name: str, attribute: str, params: Params) -> dict[str, Any]:
        return {attribute: tuple(dict.fromkeys(self.check(name, value) for value in self.read_given(name, params)))}

    def write(self, value: Iterable[str]) -> list[str]:
        return list(value)

    def condition(self, value: tuple[str, ...]) -> Q | None:
        return super().condition(value[0]) if len(value) == 1 else Q((f"{self.where}__in", value))


class NumberFilter(FilterField, forms.CharField):
    """The number of a database row, as text."""

    remedy = "use the number in the address of a finding group's page."

    def validate(self, value: str) -> None:
        if not is_number(value):
            raise ValidationError("not a number")


def is_number(text: str) -> bool:
    """Return whether the text can be the number of a database row."""
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER


class ScoreFilter(FilterField):
    """A number from 0 to 1."""

    remedy = "use a number from 0 to 1."
    nothing = None

    def to_python(self, value: Any) -> float:
        try:
            score = float(value)
        except ValueError:
            score = -1.0
        if not 0.0 <= score <= 1.0:
            raise ValidationError("not a score")
        return score

    def write(self, value: float) -> list[str]:
        return [f"{value:g}"]

    def show(self, value: float) -> str:
        return f"{value:g}"


def parse_moment(text: str) -> datetime:
    """Return the moment of a date, a date and time, or a relative time. Raise `ValidationError` for another text."""
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
        raise ValidationError("not a moment")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class MomentFilter(FilterField):
    """A moment: a date, a date and time, or how long ago (`24h`, `7d`).

    `day` is a second form field for the same moment: a whole day in UTC. `FilterSet.to_query` never writes this field.
    """

    remedy = "use a date (2026-02-15), a date and time (2026-02-15T09:30:00Z) or 24h, 7d, 30d."
    nothing = None

    def __init__(self, *args: Any, day: "DayFilter | None" = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.day = day

    def read(self, name: str, attribute: str, params: Params) -> dict[str, Any]:
        day = self.day.read(self.day.name, attribute, params) if self.day else {}
        return day or super().read(name, attribute, params)

    def to_python(self, value: Any) -> datetime:
        return parse_moment(value)

    def write(self, value: datetime) -> list[str]:
        return [value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")]

    def show(self, value: datetime) -> str:
        return f"{value:%Y-%m-%d %H:%M}"


class MomentTextFilter(TextFilter):
    """A moment whose value is the text from the address, not the parsed time."""

    remedy = MomentFilter.remedy

    def validate(self, value: str) -> None:
        parse_moment(value)


class SinceFilter(MomentFilter):
    """The start of a period; the filter set keeps a relative text in `period`, so that a link stays relative."""

    widget = forms.Select

    def __init__(self, help_text: str = SINCE, *, label: str = "Since", **options: Any) -> None:
        usual = {"example": "7d", "choices": PERIODS, "empty_label": "Any time"}
        super().__init__(label, help_text, **usual | options)

    def read(self, name: str, attribute: str, params: Params) -> dict[str, Any]:
        found = super().read(name, attribute, params)
        text = params.get(name, "").strip()
        is_relative = _RELATIVE.match(text) and not (self.day and params.get(self.day.name, "").strip())
        return found | {"period": text} if is_relative else found


class DayFilter(FilterField):
    """A whole day in UTC; the value is the start of the day, or of the day `later` days after it."""

    remedy = "use a day like 2026-02-15."
    nothing = None

    def __init__(self, *args: Any, later: int = 0, **options: Any) -> None:
        super().__init__(*args, widget=forms.DateInput(attrs={"type": "date"}), **options)
        self.later = timedelta(days=later)

    def to_python(self, value: Any) -> datetime:
        try:
            day = parse_date(value)
        except ValueError:
            day = None
        # No filter reads a moment after the year 9000, and `later` may move the last day of a year into the next year.
        if day is None or not 1970 <= day.year < 9000:
            raise ValidationError("not a day")
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + self.later

    def day_of(self, moment: datetime | None) -> str:
        """Return the day whose value is this moment, or an empty text if the moment is not the start of a day."""
        if moment is None or moment.astimezone(UTC).time() != time():
            return ""
        return f"{moment.astimezone(UTC) - self.later:%Y-%m-%d}"
