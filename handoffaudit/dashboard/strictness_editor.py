"""The editor of one row: what stands in its fields, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from handoffaudit.dashboard.strictness_words import GROUPS, HELP, NAMES, Line, bounds, choices, lines
from handoffaudit.policy import strictness
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.parsing import CHOICES, FIELDS, RANGES, SHARES, SWITCHES, parse_row, to_plain
from handoffaudit.policy.strictness import Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, TypePolicy


@dataclass(frozen=True, slots=True)
class Field:
    """An input: `choices` for a menu, `low` and `high` for a whole number, `is_switch` for a box to tick."""

    name: str
    label: str
    help: str
    value: Any
    error: str
    choices: list[str]
    low: int | None = None
    high: int | None = None
    is_switch: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that belong together."""

    title: str
    fields: list[Field]
    has_layers: bool


@dataclass(slots=True)
class Editor:
    """`row`: the type edited, empty for a new one. `base_version`: the table that the change is made on.

    `theirs`: lines of what somebody else saved meanwhile against what stands here; None where nobody did.
    """

    row: str
    base_version: int
    values: Mapping[str, Any]
    note: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    theirs: list[Line] | None = None
    gone: bool = False

    @property
    def is_new(self) -> bool:
        return not self.row

    @property
    def may_delete(self) -> bool:
        return bool(self.row) and self.row != ANY_OTHER_TYPE and not self.gone

    @property
    def groups(self) -> list[Group]:
        return [
            Group(title, [self._field(name) for name in names if name != "layers"], "layers" in names)
            for title, names in GROUPS.items()
        ]

    @property
    def type_field(self) -> Field:
        return self._field("handoff_type")

    @property
    def layers(self) -> list[tuple[str, bool]]:
        return [(layer, self.values["layers"].get(layer, True)) for layer in OPTIONAL_LAYERS]

    @property
    def layers_error(self) -> str:
        return self.errors.get("layers", "")

    @property
    def row_error(self) -> str:
        return self.errors.get("", "")

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            self.errors.setdefault(error.field, f"{error.message} {error.remedy}")

    def meet(self, current: Table) -> None:
        """Somebody saved meanwhile: show both, and let a second save be made on the new version."""
        theirs = current.row(self.row)
        self.gone = bool(self.row) and theirs is None
        mine = self.read()
        self.theirs = lines(strictness.difference([theirs], [mine])) if theirs else []
        self.base_version = current.version

    def read(self) -> TypePolicy:
        """The row as it stands in the fields; raises `InvalidPolicy`."""
        return parse_row(self.values)

    def _field(self, name: str) -> Field:
        low, high = bounds(name) or (None, None)
        menu = choices(name) if name in CHOICES else []
        error, is_switch = self.errors.get(name, ""), name in SWITCHES
        return Field(name, NAMES[name], HELP[name], self.values[name], error, menu, low, high, is_switch)


def editor_for(table: Table, row: TypePolicy) -> Editor:
    return Editor(row=row.handoff_type, base_version=table.version, values=to_plain(row))


def editor_for_new(table: Table) -> Editor:
    """Begins with what the type follows now: the row for any other type."""
    other = table.row(ANY_OTHER_TYPE)
    values = to_plain(other) if other else {}
    return Editor(row="", base_version=table.version, values={**values, "handoff_type": ""})


def editor_from(given: QueryDict) -> Editor:
    """What a person sent. Numbers that are none stay text, so that the page can show and refuse them."""
    row = given.get("row", "")
    values: dict[str, Any] = {name: given.get(name, "") for name in FIELDS if name != "layers"}
    values["handoff_type"] = row or values["handoff_type"].strip()
    values["layers"] = {layer: layer in given.getlist("layers") for layer in OPTIONAL_LAYERS}
    for name in RANGES:
        values[name] = _number(values[name], int)
    for name in SHARES:
        values[name] = _number(values[name], float)
    for name in SWITCHES:
        values[name] = name in given
    base = _number(given.get("base_version", ""), int)
    return Editor(
        row=row, base_version=base if isinstance(base, int) else -1, values=values, note=given.get("note", "")
    )


def _number(text: str, kind: type[int] | type[float]) -> int | float | str:
    try:
        return kind(text)
    except ValueError:
        return text
