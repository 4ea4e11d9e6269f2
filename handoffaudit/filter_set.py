"""Filters of lists: each filter is declared once, as a form field of a `FilterSet`.

The declaration gives the name in addresses, the type, the limits and the choices, the label on the page and the
description in the API. Pages, exports and saved views parse an address with the declaration. `form` makes the form of a
page from it, and `handoffaudit/api/requests.py` makes the parameters of an operation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Self
from urllib.parse import urlencode

from django import forms
from django.db.models import Q

from handoffaudit.filter_fields import FilterField, MomentFilter, Options, Order, Params, SortFilter


def declare(declared: FilterField) -> Any:
    """Declare an attribute of a filter set as this filter."""
    return field(default=declared.nothing, metadata={"filter": declared})


@dataclass(frozen=True, slots=True)
class Declared:
    """A filter of a set: its attribute, its name in addresses, and its form field."""

    attribute: str
    name: str
    field: FilterField


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """An active filter; `without` is the query without the filter, and `href` the address of the list without it."""

    name: str
    label: str
    value: str
    without: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class FilterSet:
    """The filters of a list: a frozen dataclass whose attributes are declared with `declare`."""

    @classmethod
    def list_declared(cls) -> tuple[Declared, ...]:
        kind: Any = cls
        return _list_declared(kind)

    @classmethod
    def parameters(cls) -> list[str]:
        """Return the names of all parameters that `from_query` reads."""
        return list(cls._form_fields())

    @classmethod
    def from_query(cls, params: Params) -> Self:
        """Read the filters of an address. Raise `FilterError` for an invalid value."""
        values: dict[str, Any] = {}
        for one in cls.list_declared():
            values |= one.field.read(one.name, one.attribute, params)
        return cls(**values)

    def _active(self) -> Iterator[tuple[Declared, Any]]:
        for one in self.list_declared():
            value = getattr(self, one.attribute)
            if value != one.field.nothing:
                yield one, value

    def relative_text(self, attribute: str) -> str:
        """Return the text of a relative moment, such as `7d`; empty if the moment is not relative."""
        return getattr(self, "period", "") if attribute == "since" else ""

    def pairs(self) -> list[tuple[str, str]]:
        """Return the names and values of the active filters."""
        found: list[tuple[str, str]] = []
        for one, value in self._active():
            text = self.relative_text(one.attribute)
            found += [(one.name, written) for written in ([text] if text else one.field.write(value))]
        return found

    def to_query(self, **changes: Any) -> str:
        """Return the active filters, with these changes, as the query of an address."""
        return urlencode((replace(self, **changes) if changes else self).pairs())

    @classmethod
    def orders(cls) -> Mapping[str, Order]:
        """Return the orders of the list, which the set declares with a `SortFilter` named `sort`."""
        declared: SortFilter = cls._form_fields()["sort"]
        return declared.orders

    @property
    def order(self) -> Order:
        """Return the chosen order of the list."""
        name: str = getattr(self, "sort")  # noqa: B009 -- only sets with orders have the attribute
        return self.orders()[name]

    def conditions(self) -> list[Q]:
        """Return the conditions of the active filters, except filters that the queries of the list apply themselves."""
        found = (one.field.condition(value) for one, value in self._active())
        return [condition for condition in found if condition is not None]

    def active(self) -> Iterator[ActiveFilter]:
        """Yield the active filters as the page names them; each of several choices is an active filter of its own."""
        for one, value in self._active():
            if not one.field.label or not one.field.narrows:
                continue
            label, text = str(one.field.label), self.relative_text(one.attribute)
            if isinstance(value, tuple):
                for part in value:
                    others = tuple(other for other in value if other != part)
                    yield ActiveFilter(one.name, label, one.field.show(part), self._with(one, others))
            else:
                shown = one.field.choices.get(text) or text or one.field.show(value)
                yield ActiveFilter(one.name, label, shown, self._with(one, one.field.nothing))

    def _with(self, one: Declared, value: Any) -> str:
        changes = {one.attribute: value} | ({"period": ""} if self.relative_text(one.attribute) else {})
        return self.to_query(**changes)

    def __bool__(self) -> bool:
        return any(True for _ in self._active())

    @classmethod
    def form(cls, asked: Params, filters: Self | None = None, **options: Options) -> forms.Form:
        """Return the form of the filters with the values of an address, which may be invalid.

        `filters` are the filters in force, or None if the address is invalid. If a moment of `filters` is the start
        or end of a day, the form shows it in the field for days. `options` are the choices that the page offers, by the
        name of the filter, if they are not declared.
        """
        values = {name: field.read_given(name, asked) for name, field in cls._form_fields().items()}
        for one in cls.list_declared():
            if isinstance(one.field, MomentFilter) and one.field.day and filters is not None:
                is_relative = bool(filters.relative_text(one.attribute))
                day = "" if is_relative else one.field.day.day_of(getattr(filters, one.attribute))
                values |= {one.field.day.name: day} | ({one.name: ""} if day else {})
        kind: Any = cls
        made = _form_class(kind)(values, auto_id="f-%s")
        for name, known in options.items():
            made.fields[name].options = known  # type: ignore[attr-defined]
        return made

    @classmethod
    def _form_fields(cls) -> dict[str, Any]:
        kind: Any = cls
        return _form_class(kind).base_fields


@cache
def _list_declared(kind: type[FilterSet]) -> tuple[Declared, ...]:
    found = ((one.name, one.metadata["filter"]) for one in fields(kind) if "filter" in one.metadata)
    return tuple(Declared(attribute, declared.name or attribute, declared) for attribute, declared in found)


@cache
def _form_class(kind: type[FilterSet]) -> type[forms.Form]:
    made: dict[str, Any] = {}
    for one in kind.list_declared():
        made[one.name] = one.field
        if isinstance(one.field, MomentFilter) and one.field.day:
            made[one.field.day.name] = one.field.day
    return type(f"{kind.__name__}Form", (forms.Form,), made)
