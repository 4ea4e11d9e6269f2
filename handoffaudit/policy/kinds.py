"""Every kind of policy, each with its versions: `rules.current(tenant)`, `schemas.save(tenant=…, rows=…, …)`."""

from operator import attrgetter
from typing import Any

from handoffaudit.policy import parsing, rule_sets, type_schemas
from handoffaudit.policy.defaults import ROWS_AS_SHIPPED
from handoffaudit.policy.models import Kind
from handoffaudit.policy.type_schemas import TypeSchema
from handoffaudit.policy.versions import Versions
from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy

strictness: Versions[TypePolicy] = Versions(
    kind=Kind.STRICTNESS,
    listed="rows",
    shipped=ROWS_AS_SHIPPED,
    name_of=attrgetter("handoff_type"),
    parse=parsing.parse_rows,
    checked=parsing.checked_table,
    plain=parsing.to_plain,
    compared=parsing.to_plain,
    stays=ANY_OTHER_TYPE,
)
rules: Versions[BusinessRuleSet] = Versions(
    kind=Kind.RULES,
    listed="sets",
    shipped=(),
    name_of=attrgetter("set_id"),
    parse=rule_sets.parse,
    checked=rule_sets.checked,
    plain=rule_sets.to_plain,
    compared=rule_sets.compared,
    renewed=rule_sets.renewed,
)
schemas: Versions[TypeSchema] = Versions(
    kind=Kind.SCHEMAS,
    listed="rows",
    shipped=(),
    name_of=attrgetter("handoff_type"),
    parse=type_schemas.parse_rows,
    checked=type_schemas.checked_rows,
    plain=type_schemas.to_plain,
    compared=type_schemas.to_plain,
)
KINDS: dict[Kind, Versions[Any]] = {one.kind: one for one in (strictness, rules, schemas)}
