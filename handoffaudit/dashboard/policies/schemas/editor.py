"""The editor of one type's schema and claim fields."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from django.http import QueryDict

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.policies.drafts import Draft, line_of, lines_of, read_json, sent, text_of
from handoffaudit.dashboard.policies.fields import Field
from handoffaudit.dashboard.policies.schemas.words import HELP, LONGEST_NAME, NAMES, lines
from handoffaudit.dashboard.policies.words import MOST_OF_A_VERSION
from handoffaudit.dashboard.readable import cut
from handoffaudit.policy import kinds
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.schemas import TypeSchema, parse_row, to_plain
from handoffaudit.policy.versions import Table

Rows = Table[TypeSchema]


@dataclass(kw_only=True)
class Editor(Draft[TypeSchema]):
    """`row`: the type edited, empty for a new one, whose name is `new_type`."""

    row: str
    new_type: str = ""
    schema: str = ""
    assert_formats: bool = False
    claim_fields: str = ""
    claims_nothing: bool = False

    @property
    def is_new(self) -> bool:
        return not self.row

    @property
    def may_delete(self) -> bool:
        return bool(self.row) and not self.gone

    @property
    def gone_text(self) -> str:
        return f"The row {cut(self.row, LONGEST_NAME)} was deleted. Saving yours brings it back."

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
            label="It claims nothing",
            help=HELP["claims_nothing"],
            value=self.claims_nothing,
            is_switch=True,
        )

    def read(self) -> TypeSchema:
        """The row as it stands in the fields; raises `InvalidPolicy`."""
        handoff_type = self.row or self.new_type
        given: dict[str, Any] = {"handoff_type": handoff_type, "schema": None, "claim_fields": None}
        if self.schema.strip():
            try:
                given["schema"] = read_json(self.schema)
            except ValueError as error:
                refusal = PolicyError(handoff_type, "schema", None, str(error), "Put it right there.")
                raise InvalidPolicy([refusal]) from error
            given["assert_formats"] = self.assert_formats
        paths = lines_of(self.claim_fields)
        if self.claims_nothing and paths:
            remedy = "Take the paths out, or the tick."
            message = "There are paths, and it is said to claim nothing."
            raise InvalidPolicy([PolicyError(handoff_type, "claim_fields", None, message, remedy)])
        if paths or self.claims_nothing:
            given["claim_fields"] = paths
        return parse_row(given)

    def rows(self, now: Rows) -> Iterable[TypeSchema]:
        row = self.read()
        if self.is_new and now.row(row.handoff_type):
            remedy = "Edit that row instead."
            raise InvalidPolicy([PolicyError(row.handoff_type, "handoff_type", None, "The type has a row.", remedy)])
        return kinds.schemas.checked([*(one for one in now.rows if one.handoff_type != row.handoff_type), row])

    def touched(self, tenant: Tenant, now: Rows, rows: Iterable[TypeSchema]) -> list[str]:
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
    """What a person sent."""
    return Editor(
        row=line_of(given, "row"),
        new_type=line_of(given, "handoff_type").strip(),
        schema=text_of(given, "schema"),
        assert_formats="assert_formats" in given,
        claim_fields=text_of(given, "claim_fields"),
        claims_nothing="claims_nothing" in given,
        **sent(given),
    )
