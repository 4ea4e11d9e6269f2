"""All kinds of policies, each with its versions: `rules.current(tenant)`, `schemas.save(tenant=…, rows=…, …)`."""

from operator import attrgetter
from typing import Any

from handoffaudit.policy import agents as policy_agents
from handoffaudit.policy import alert_rules as watching
from handoffaudit.policy import handoff_files
from handoffaudit.policy import prompts as policy_prompts
from handoffaudit.policy import retention as keeping
from handoffaudit.policy import rules as policy_rules
from handoffaudit.policy import schemas as policy_schemas
from handoffaudit.policy import strictness as policy_strictness
from handoffaudit.policy.agents import DeclaredRoutes
from handoffaudit.policy.alert_rules import AlertRule
from handoffaudit.policy.handoff_files import HandoffFilesPolicy
from handoffaudit.policy.models import Kind
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.policy.retention import Retention
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.policy.values import to_plain
from handoffaudit.policy.versions import Versions
from handoffaudit.validation.business_rules.rules import BusinessRuleSet
from handoffaudit.validation.config import ANY_OTHER_TYPE, ROWS_AS_SHIPPED, TypePolicy

strictness: Versions[TypePolicy] = Versions(
    kind=Kind.STRICTNESS,
    listed="rows",
    shipped=ROWS_AS_SHIPPED,
    name_of=attrgetter("handoff_type"),
    parse=policy_strictness.parse_rows,
    checked=policy_strictness.check_table,
    plain=policy_strictness.to_plain,
    compared=policy_strictness.to_plain,
    stays=ANY_OTHER_TYPE,
)
rules: Versions[BusinessRuleSet] = Versions(
    kind=Kind.RULES,
    listed="sets",
    shipped=(),
    name_of=attrgetter("set_id"),
    parse=policy_rules.parse_rule_sets,
    checked=policy_rules.check_sets,
    plain=policy_rules.rule_set_to_plain,
    compared=policy_rules.to_comparable,
    renewed=policy_rules.number_version,
)
schemas: Versions[TypeSchema] = Versions(
    kind=Kind.SCHEMAS,
    listed="rows",
    shipped=(),
    name_of=attrgetter("handoff_type"),
    parse=policy_schemas.parse_rows,
    checked=policy_schemas.check_rows,
    plain=policy_schemas.to_plain,
    compared=policy_schemas.to_plain,
)
prompts: Versions[PromptRow] = Versions(
    kind=Kind.PROMPTS,
    listed="rows",
    shipped=(),
    name_of=attrgetter("name"),
    parse=policy_prompts.parse_rows,
    checked=policy_prompts.check_rows,
    plain=to_plain,
    compared=to_plain,
)
agents: Versions[DeclaredRoutes] = Versions(
    kind=Kind.AGENTS,
    listed="rows",
    shipped=(),
    name_of=attrgetter("source"),
    parse=policy_agents.parse_rows,
    checked=policy_agents.check_rows,
    plain=to_plain,
    compared=to_plain,
)
# The kinds below are not in KINDS: their rows always exist, and no handoff is judged by them.
file_policy: Versions[HandoffFilesPolicy] = Versions(
    kind=Kind.HANDOFF_FILES,
    listed="rows",
    shipped=handoff_files.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=handoff_files.parse_rows,
    checked=handoff_files.check_rows,
    plain=to_plain,
    compared=to_plain,
    stays=handoff_files.NAME,
)
alert_policy: Versions[AlertRule] = Versions(
    kind=Kind.THRESHOLDS,
    listed="rows",
    shipped=watching.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=watching.parse_rows,
    checked=watching.check_rows,
    plain=to_plain,
    compared=to_plain,
)
retention: Versions[Retention] = Versions(
    kind=Kind.RETENTION,
    listed="rows",
    shipped=keeping.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=keeping.parse_rows,
    checked=keeping.check_rows,
    plain=to_plain,
    compared=to_plain,
)
KINDS: dict[Kind, Versions[Any]] = {one.kind: one for one in (strictness, rules, schemas, prompts, agents)}
