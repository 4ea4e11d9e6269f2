"""Every kind of policy, each with its versions: `rules.current(tenant)`, `schemas.save(tenant=…, rows=…, …)`."""

from operator import attrgetter
from typing import Any

from handoffaudit.policy import declared_edges, handoff_files, parsing, prompt_rows, rule_sets, type_schemas
from handoffaudit.policy import retention as keeping
from handoffaudit.policy import thresholds as watching
from handoffaudit.policy.declared_edges import DeclaredEdges
from handoffaudit.policy.defaults import ROWS_AS_SHIPPED
from handoffaudit.policy.handoff_files import HandoffFilesPolicy
from handoffaudit.policy.models import Kind
from handoffaudit.policy.prompt_rows import PromptRow
from handoffaudit.policy.retention import Retention
from handoffaudit.policy.thresholds import Threshold
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
prompts: Versions[PromptRow] = Versions(
    kind=Kind.PROMPTS,
    listed="rows",
    shipped=(),
    name_of=attrgetter("name"),
    parse=prompt_rows.parse_rows,
    checked=prompt_rows.checked_rows,
    plain=prompt_rows.to_plain,
    compared=prompt_rows.to_plain,
)
agents: Versions[DeclaredEdges] = Versions(
    kind=Kind.AGENTS,
    listed="rows",
    shipped=(),
    name_of=attrgetter("source"),
    parse=declared_edges.parse_rows,
    checked=declared_edges.checked_rows,
    plain=declared_edges.to_plain,
    compared=declared_edges.to_plain,
)
# These are not of KINDS: their rows are always there, and no handoff is judged by them.
file_policy: Versions[HandoffFilesPolicy] = Versions(
    kind=Kind.HANDOFF_FILES,
    listed="rows",
    shipped=handoff_files.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=handoff_files.parse_rows,
    checked=handoff_files.checked_rows,
    plain=handoff_files.to_plain,
    compared=handoff_files.to_plain,
    stays=handoff_files.NAME,
)
thresholds: Versions[Threshold] = Versions(
    kind=Kind.THRESHOLDS,
    listed="rows",
    shipped=watching.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=watching.parse_rows,
    checked=watching.checked_rows,
    plain=watching.to_plain,
    compared=watching.to_plain,
)
retention: Versions[Retention] = Versions(
    kind=Kind.RETENTION,
    listed="rows",
    shipped=keeping.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=keeping.parse_rows,
    checked=keeping.checked_rows,
    plain=keeping.to_plain,
    compared=keeping.to_plain,
)
KINDS: dict[Kind, Versions[Any]] = {one.kind: one for one in (strictness, rules, schemas, prompts, agents)}
