"""The editor of one strictness row, and the labels of its fields and changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from handoffaudit.dashboard.policies import forms
from handoffaudit.dashboard.policies.forms import Draft, Field, Line, form_values
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.strictness import FIELDS, StrictnessModel, parse_row, to_plain
from handoffaudit.policy.values import InvalidPolicy, PolicyError, fields_of, is_amount
from handoffaudit.policy.versions import WHOLE_ROW, Change, Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, TypePolicy

FORM = fields_of(StrictnessModel)

NAMES = {name: field.title or name for name, field in FORM.items()} | {
    f"layers.{layer}": f"Layer {layer}" for layer in OPTIONAL_LAYERS
}

GROUPS = {
    "Judging": ("strictness", "mode", "layers"),
    "Size and chain": (
        "token_budget",
        "output_token_budget",
        "approval_length",
        "recommended_length",
        "circular_policy",
        "max_returns",
    ),
    "Claims": ("evidence", "max_uncited_ratio", "grounding", "confidence_floor"),
    "Remediation and review": (
        "repair",
        "return_repaired",
        "max_retries",
        "max_re_retrievals",
        "min_severity_to_remediate",
        "auto_escalate_on_critical",
        "hold_limit_hours",
        "approval_expires_hours",
        "four_eyes",
    ),
}

MODEL = "LLM checks"

FOLDED = {
    MODEL: (
        "fail_mode",
        "objective_confidence",
        "careful_above",
        "critique",
        "critique_model",
        "critique_notional_usd",
        "critique_score_floor",
        "critique_threshold",
        "critique_max_usd",
    )
}

# The fields that each cell of the table represents.
CELLS = {
    "size": GROUPS["Size and chain"],
    "claims": GROUPS["Claims"],
    "remediation": GROUPS["Remediation and review"],
    "llm": FOLDED[MODEL],
}

# The values of these fields are clear without the label of the field.
WITHOUT_LABEL = ("strictness", "mode", "layers")


def type_name(handoff_type: str) -> str:
    return "any other type" if handoff_type == ANY_OTHER_TYPE else handoff_type


def lines(changes: Iterable[Change]) -> list[Line]:
    return [_line(change) for change in changes]


def format_field(field: str, value: Any) -> str:
    """Return a field's value as text; a boolean as "on" or "off"."""
    if field == "layers" and isinstance(value, dict):
        off = [layer for layer, on in value.items() if not on]
        return f"without {', '.join(off)}" if off else "all layers"
    if is_amount(field) and isinstance(value, int | float):
        return format_usd(value)
    return forms.format_value(value)


def format_usd(amount: float) -> str:
    """Return an amount in US dollars as people write it: 50,000 or 0.10."""
    return f"{amount:,.0f}" if float(amount).is_integer() else f"{amount:,.2f}" if amount >= 0.01 else f"{amount:.4g}"


def _line(change: Change) -> Line:
    name = type_name(change.row)
    if change.field == WHOLE_ROW:
        return Line(name, WHOLE_ROW, _row(change.old), _row(change.new))
    field = NAMES.get(change.field, forms.format_path(change.field))
    return Line(name, field, format_field(change.field, change.old), format_field(change.field, change.new))


def _row(row: Any) -> str | None:
    if row is None:
        return None
    if not isinstance(row, dict) or "strictness" not in row:
        return format_field(WHOLE_ROW, row)
    # PostgreSQL stores JSON keys in its own order, so the fields are put into the order of the table.
    return ", ".join(_value(field, row[field]) for field in FIELDS if field in row and field != "handoff_type")


def _value(field: str, value: Any) -> str:
    if field in WITHOUT_LABEL:
        return format_field(field, value)
    name = NAMES[field]
    in_sentence = name if name[:2].isupper() else name[:1].lower() + name[1:]
    return f"{in_sentence} {format_field(field, value)}"


@dataclass(frozen=True, slots=True)
class Group:
    """A titled group of inputs."""

    title: str
    fields: list[Field]
    has_layers: bool = False

    @property
    def is_wrong(self) -> bool:
        return any(field.error for field in self.fields)


@dataclass(kw_only=True)
class Editor(Draft[TypePolicy]):
    """The editor of one row; `row` is the edited handoff type, empty for a new row."""

    row: str
    values: Mapping[str, Any]

    @property
    def edited_row(self) -> str:
        return self.row

    @property
    def may_delete(self) -> bool:
        return super().may_delete and self.row != ANY_OTHER_TYPE

    @property
    def gone_text(self) -> str:
        return f"The row {self.row} was deleted. Save to add it again."

    @property
    def groups(self) -> list[Group]:
        return [
            Group(title, [self._field(name) for name in names if name != "layers"], "layers" in names)
            for title, names in GROUPS.items()
        ]

    @property
    def folds(self) -> list[Group]:
        """Return the groups of inputs that the page folds, because most administrators keep their defaults."""
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
        """Return the row that the fields describe; raise `InvalidPolicy` for bad values."""
        return parse_row(self.values)

    def rows(self, now: Table[TypePolicy]) -> Iterable[TypePolicy]:
        row = self.read()
        if self.is_new and now.row(row.handoff_type):
            remedy = "Edit that row instead."
            raise InvalidPolicy(
                [PolicyError(row.handoff_type, "handoff_type", None, "The type already has a row.", remedy)]
            )
        return [*(kept for kept in now.rows if kept.handoff_type != row.handoff_type), row]

    def list_affected_types(self, now: Table[TypePolicy], rows: Iterable[TypePolicy]) -> list[str]:
        return [self.read().handoff_type]

    def _field(self, name: str) -> Field:
        return forms.field_of(name, FORM[name], self.values[name], self.errors.get(name, ""))


def editor_for(table: Table[TypePolicy], row: TypePolicy) -> Editor:
    return Editor(row=row.handoff_type, base_version=table.version, values=to_plain(row))


def editor_for_new(table: Table[TypePolicy]) -> Editor:
    """Return an editor of a new row, which starts with the values of the row "any other type"."""
    other = table.row(ANY_OTHER_TYPE)
    values = to_plain(other) if other else {}
    return Editor(row="", base_version=table.version, values={**values, "handoff_type": ""})


def editor_from(given: QueryDict) -> Editor:
    """Return an editor with the values of a submitted form.

    In a field for numbers, a text that is not a number stays text, so that the page can show and refuse the text.
    """
    row = given.get("row", "")
    values = forms.read_fields(FORM, given)
    values["handoff_type"] = row or values["handoff_type"].strip()
    values["layers"] = {layer: layer in given.getlist("layers") for layer in OPTIONAL_LAYERS}
    return Editor(row=row, values=values, **form_values(given))
