"""The page of schemas and claim fields of each handoff type, with its editor and labels."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import (
    MOST_OF_A_VERSION,
    Draft,
    Field,
    Line,
    form_values,
    format_optional,
    format_path,
    format_value,
    line_of,
    lines_of,
    read_json,
    text_of,
)
from handoffaudit.dashboard.policies.views import Deleting, Editing
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.policy import kinds
from handoffaudit.policy.schemas import TypeSchema, parse_row, to_plain
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import WHOLE_ROW, Change, Table

LONGEST_NAME = 60

MOST_NAMED = 6

NAMES = {
    "handoff_type": "Handoff type",
    "schema": "Schema of the data",
    "assert_formats": "Check formats",
    "claim_fields": "Claim fields",
}

HELP = {
    "handoff_type": "as senders write it, e.g. deal_data",
    "schema": "JSON Schema, draft 2020-12; empty: any data passes",
    "assert_formats": "whether format (date-time, email, uri and others) is checked; off: format is an annotation",
    "claim_fields": "one path per line, e.g. layers.*.findings; empty: every text and number at the top of the data",
    "claims_nothing": "the data of this type makes no claims, so it needs no sources",
}


def summarize_schema(schema: Any) -> list[str]:
    """Summarize a schema in a few parts: its type, its required fields, and its number of properties."""
    if isinstance(schema, bool):
        return ["any data" if schema else "no data passes"]
    if not isinstance(schema, Mapping):
        return []
    kind, required, properties = schema.get("type"), schema.get("required"), schema.get("properties")
    parts = [cut(kind, LONGEST_NAME)] if isinstance(kind, str) else []
    if isinstance(required, list) and required:
        parts.append(f"requires {join_fields(required)}")
    if isinstance(properties, Mapping):
        parts.append(f"{len(properties)} propert{'y' if len(properties) == 1 else 'ies'}")
    if schema.get("additionalProperties") is False:
        parts.append("no others")
    return parts or ["a schema without required fields or properties"]


def join_fields(names: Iterable[object]) -> str:
    """Join the names, at most the first `MOST_NAMED`, and say how many more there are."""
    every = [str(name) for name in names]
    shown = ", ".join(cut(name, LONGEST_NAME) for name in every[:MOST_NAMED])
    more = len(every) - MOST_NAMED
    return shown + (f" and {more} more" if more > 0 else "")


def describe_claims(fields: tuple[str, ...] | None) -> str:
    if fields is None:
        return "every text and number at the top"
    return join_fields(fields) if fields else "none"


def lines(changes: Iterable[Change]) -> list[Line]:
    return [_change_line(change) for change in changes]


def _change_line(change: Change) -> Line:
    name = cut(change.row, LONGEST_NAME)
    if change.field == WHOLE_ROW:
        return Line(name, "row", _row_text(change.old), _row_text(change.new))
    if change.field == "claim_fields":
        return Line(name, "claim fields", _claims(change.old), _claims(change.new))
    return Line(name, format_path(change.field), format_optional(change.old), format_optional(change.new))


def _row_text(plain: Any) -> str | None:
    if not isinstance(plain, Mapping):
        return format_optional(plain)
    parts = summarize_schema(plain["schema"])
    if plain.get("assert_formats"):
        parts.append("formats checked")
    if plain["claim_fields"] is not None:
        parts.append(f"claim fields: {_claims(plain['claim_fields'])}")
    return ", ".join(parts)


def _claims(plain: Any) -> str:
    if plain is None or isinstance(plain, list):
        return describe_claims(None if plain is None else tuple(plain))
    return format_value(plain)


Rows = Table[TypeSchema]


@dataclass(kw_only=True)
class Editor(Draft[TypeSchema]):
    """The editor of one row; `row` is the edited type, empty for a new row, whose type is `new_type`."""

    row: str
    new_type: str = ""
    schema: str = ""
    assert_formats: bool = False
    claim_fields: str = ""
    claims_nothing: bool = False

    @property
    def edited_row(self) -> str:
        return self.row

    @property
    def gone_text(self) -> str:
        return f"The row {cut(self.row, LONGEST_NAME)} was deleted. Save to add it again."

    @property
    def type_field(self) -> Field:
        return self._field("handoff_type", self.new_type, required=True)

    @property
    def schema_field(self) -> Field:
        return self._field("schema", self.schema, height=18, is_code=True)

    @property
    def formats_field(self) -> Field:
        return self._field("assert_formats", self.assert_formats, is_switch=True)

    @property
    def claims_field(self) -> Field:
        return self._field("claim_fields", self.claim_fields, height=4, is_code=True)

    @property
    def nothing_field(self) -> Field:
        return Field(
            name="claims_nothing",
            label="No claims",
            help=HELP["claims_nothing"],
            value=self.claims_nothing,
            is_switch=True,
        )

    def read(self) -> TypeSchema:
        """Return the row that the fields describe; raise `InvalidPolicy` for bad values."""
        handoff_type = self.row or self.new_type
        given: dict[str, Any] = {"handoff_type": handoff_type, "schema": None, "claim_fields": None}
        if self.schema.strip():
            try:
                given["schema"] = read_json(self.schema)
            except ValueError as error:
                refusal = PolicyError(handoff_type, "schema", None, str(error), "Correct the text there.")
                raise InvalidPolicy([refusal]) from error
            given["assert_formats"] = self.assert_formats
        paths = lines_of(self.claim_fields)
        if self.claims_nothing and paths:
            remedy = "Remove the paths, or untick the box."
            message = "The type has claim fields, but the box No claims is ticked."
            raise InvalidPolicy([PolicyError(handoff_type, "claim_fields", None, message, remedy)])
        if paths or self.claims_nothing:
            given["claim_fields"] = paths
        return parse_row(given)

    def rows(self, now: Rows) -> Iterable[TypeSchema]:
        row = self.read()
        if self.is_new and now.row(row.handoff_type):
            remedy = "Edit that row instead."
            raise InvalidPolicy(
                [PolicyError(row.handoff_type, "handoff_type", None, "The type already has a row.", remedy)]
            )
        return kinds.schemas.checked([*(one for one in now.rows if one.handoff_type != row.handoff_type), row])

    def list_affected_types(self, now: Rows, rows: Iterable[TypeSchema]) -> list[str]:
        return [self.row or self.new_type]

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            name = next((name for name in NAMES if error.field.startswith(name)), "")
            self.keep(name, error, error.field.removeprefix(name).lstrip("."))

    def meet(self, current: Rows) -> None:
        theirs = current.row(self.row)
        self.gone = bool(self.row) and theirs is None
        mine = self.read()
        self.theirs = lines(kinds.schemas.difference([theirs], [mine]))[:MOST_OF_A_VERSION] if theirs else []

    def _field(self, name: str, value: Any, **more: Any) -> Field:
        return Field(
            name=name, label=NAMES[name], help=HELP[name], value=value, error=self.errors.get(name, ""), **more
        )


def editor_for(now: Rows, row: TypeSchema) -> Editor:
    plain = to_plain(row)
    schema = orjson.dumps(plain["schema"], option=orjson.OPT_INDENT_2).decode() if row.schema else ""
    return Editor(
        base_version=now.version,
        row=row.handoff_type,
        schema=schema,
        assert_formats=bool(plain["assert_formats"]),
        claim_fields="\n".join(row.claim_fields or ()),
        claims_nothing=row.claim_fields == (),
    )


def editor_for_new(now: Rows) -> Editor:
    return Editor(base_version=now.version, row="")


def editor_from(given: QueryDict) -> Editor:
    """Return an editor with the values of a submitted form."""
    return Editor(
        row=line_of(given, "row"),
        new_type=line_of(given, "handoff_type").strip(),
        schema=text_of(given, "schema"),
        assert_formats="assert_formats" in given,
        claim_fields=text_of(given, "claim_fields"),
        claims_nothing="claims_nothing" in given,
        **form_values(given),
    )


TEMPLATE = "dashboard/schemas/page.html"

PAGE = PolicyPage(kinds.schemas, "Schemas", "A new tenant has no schema.", lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the page as texts. While the row is edited, the page shows `editor` in its place."""

    handoff_type: str
    name: str
    summary: list[str]
    claims: str
    editor: Editor | None


@require_role(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the schemas; `?edit=<type>`, `?add` and `?trial=<id>` open an editor."""
    now = kinds.schemas.current(who.tenant)
    return _page(request, now, _find_editor(request, who, now))


def _find_editor(request: HttpRequest, who: TenantMembership, now: Rows) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.reopen(request, who):
        return again
    if "add" in request.GET:
        return editor_for_new(now)
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row) if row else None


def _page(request: HttpRequest, now: Rows, editor: Editor | None, status: int = 200) -> HttpResponse:
    rows = [_row(row, editor) for row in now.rows]
    context: dict[str, Any] = {
        "rows": rows,
        "editor": editor,
        # The editor of a new row, or of a row that somebody else deleted meanwhile, comes before the rows.
        "new": None if any(row.editor for row in rows) else editor,
        "names": NAMES,
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _row(row: TypeSchema, editor: Editor | None) -> Row:
    mine = editor if editor and editor.row == row.handoff_type else None
    parts = summarize_schema(row.schema.source) if row.schema else []
    if row.schema and row.schema.assert_formats:
        parts.append("formats checked")
    return Row(row.handoff_type, cut(row.handoff_type, LONGEST_NAME), parts, describe_claims(row.claim_fields), mine)


def _describe_deletion(editor: Editor) -> Deleting:
    return Deleting(editor.row, cut(editor.row, LONGEST_NAME), ": any data of this type passes")


EDITING = Editing(PAGE, editor_from, _page, deleting=_describe_deletion)

urlpatterns = [
    path("schemas/", page, name="schemas"),
    *EDITING.urls(),
]
