"""The editor of one row: what stands in its fields, and what is wrong with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.policies.drafts import Draft, sent
from handoffaudit.dashboard.policies.fields import Field, plain_menu
from handoffaudit.dashboard.policies.strictness.words import FOLDED, GROUPS, HELP, NAMES, choices, lines
from handoffaudit.handoffs import stats
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.strictness import AMOUNTS, CHOICES, FIELDS, RANGES, SHARES, SWITCHES, parse_row, to_plain
from handoffaudit.policy.versions import Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, TypePolicy


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that belong together."""

    title: str
    fields: list[Field]
    has_layers: bool = False

    @property
    def is_wrong(self) -> bool:
        return any(field.error for field in self.fields)


@dataclass(kw_only=True)
class Editor(Draft[TypePolicy]):
    """`row`: the type edited, empty for a new one."""

    row: str
    values: Mapping[str, Any]

    @property
    def is_new(self) -> bool:
        return not self.row

    @property
    def may_delete(self) -> bool:
        return bool(self.row) and self.row != ANY_OTHER_TYPE and not self.gone

    @property
    def gone_text(self) -> str:
        return f"The row {self.row} was deleted. Saving yours brings it back."

    @property
    def groups(self) -> list[Group]:
        return [
            Group(title, [self._field(name) for name in names if name != "layers"], "layers" in names)
            for title, names in GROUPS.items()
        ]

    @property
    def folds(self) -> list[Group]:
        """What most people leave as it is."""
        return [Group(title, [self._field(name) for name in names]) for title, names in FOLDED.items()]

    @property
    def type_field(self) -> Field:
        return self._field("handoff_type")

    @property
    def layers(self) -> list[tuple[str, bool]]:
        return [(layer, self.values["layers"].get(layer, True)) for layer in OPTIONAL_LAYERS]

    @property
    def layers_error(self) -> str:
        return self.errors.get("layers", "")

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            self.keep(error.field, error)

    def meet(self, current: Table[TypePolicy]) -> None:
        theirs = current.row(self.row)
        self.gone = bool(self.row) and theirs is None
        mine = self.read()
        self.theirs = lines(strictness.difference([theirs], [mine])) if theirs else []
        self.base_version = current.version

    def read(self) -> TypePolicy:
        """The row as it stands in the fields; raises `InvalidPolicy`."""
        return parse_row(self.values)

    def rows(self, now: Table[TypePolicy]) -> Iterable[TypePolicy]:
        row = self.read()
        if self.is_new and now.row(row.handoff_type):
            remedy = "Edit that row instead."
            raise InvalidPolicy([PolicyError(row.handoff_type, "handoff_type", None, "The type has a row.", remedy)])
        return [*(kept for kept in now.rows if kept.handoff_type != row.handoff_type), row]

    def touched(self, tenant: Tenant, now: Table[TypePolicy], rows: Iterable[TypePolicy]) -> list[str]:
        if self.row != ANY_OTHER_TYPE:
            return [self.read().handoff_type]
        own = {row.handoff_type for row in now.rows} - {ANY_OTHER_TYPE}
        # The row's own name is nobody's type: where all types have rows, no handoff is tried.
        return [ANY_OTHER_TYPE, *(name for name in stats.list_known_values(tenant).types if name not in own)]

    def _field(self, name: str) -> Field:
        return Field(
            name=name,
            label=NAMES[name],
            help=HELP[name],
            value=_typed(self.values[name]) if name in AMOUNTS else self.values[name],
            error=self.errors.get(name, ""),
            choices=plain_menu(choices(name)) if name in CHOICES else None,
            is_number=name in RANGES,
            is_decimal=name in SHARES or name in AMOUNTS,
            is_switch=name in SWITCHES,
            required=True,
        )


def editor_for(table: Table[TypePolicy], row: TypePolicy) -> Editor:
    return Editor(row=row.handoff_type, base_version=table.version, values=to_plain(row))


def editor_for_new(table: Table[TypePolicy]) -> Editor:
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
    for name in (*SHARES, *AMOUNTS):
        values[name] = _number(values[name], float)
    for name in SWITCHES:
        values[name] = name in given
    return Editor(row=row, values=values, **sent(given))


def _typed(amount: Any) -> Any:
    """An amount as it is typed: 50000, not 50000.0."""
    return int(amount) if isinstance(amount, float) and amount.is_integer() else amount


def _number(text: str, kind: type[int] | type[float]) -> int | float | str:
    try:
        return kind(text)
    except ValueError:
        return text
