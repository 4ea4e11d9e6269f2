"""All kinds of policies with their versions (`rules.current(tenant)`, `schemas.save(…)`), and the policies in force."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from django.db import connection
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.policy import agents as policy_agents
from handoffaudit.policy import alert_rules as policy_alert_rules
from handoffaudit.policy import prompts as policy_prompts
from handoffaudit.policy import retention as policy_retention
from handoffaudit.policy import rules as policy_rules
from handoffaudit.policy import schemas as policy_schemas
from handoffaudit.policy import strictness as policy_strictness
from handoffaudit.policy.agents import DeclaredRole, DeclaredRoutes, known_agents
from handoffaudit.policy.alert_rules import AlertRule
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.policy.retention import Retention
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.policy.strictness import HandoffFilesPolicy
from handoffaudit.policy.values import to_plain
from handoffaudit.policy.versions import AS_SHIPPED, Versions
from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.config import ANY_OTHER_TYPE, ROWS_AS_SHIPPED, TypePolicy, ValidationConfig

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
    parse=policy_agents.parse_route_rows,
    checked=policy_agents.check_route_rows,
    plain=to_plain,
    compared=to_plain,
)
roles: Versions[DeclaredRole] = Versions(
    kind=Kind.ROLES,
    listed="rows",
    shipped=(),
    name_of=attrgetter("agent"),
    parse=policy_agents.parse_role_rows,
    checked=policy_agents.check_role_rows,
    plain=to_plain,
    compared=policy_agents.role_to_comparable,
)
# The kinds below are not in KINDS. Their rows always exist, and the configuration for judging does not contain them.
file_policy: Versions[HandoffFilesPolicy] = Versions(
    kind=Kind.HANDOFF_FILES,
    listed="rows",
    shipped=policy_strictness.HANDOFF_FILES_AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=policy_strictness.parse_handoff_files,
    checked=policy_strictness.check_handoff_files,
    plain=to_plain,
    compared=to_plain,
    stays=policy_strictness.HANDOFF_FILES,
)
alert_policy: Versions[AlertRule] = Versions(
    kind=Kind.THRESHOLDS,
    listed="rows",
    shipped=policy_alert_rules.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=policy_alert_rules.parse_rows,
    checked=policy_alert_rules.check_rows,
    plain=to_plain,
    compared=to_plain,
)
retention: Versions[Retention] = Versions(
    kind=Kind.RETENTION,
    listed="rows",
    shipped=policy_retention.AS_SHIPPED,
    name_of=attrgetter("name"),
    parse=policy_retention.parse_rows,
    checked=policy_retention.check_rows,
    plain=to_plain,
    compared=policy_retention.to_comparable,
)
KINDS: dict[Kind, Versions[Any]] = {one.kind: one for one in (strictness, rules, schemas, prompts, agents, roles)}


def stamp_roles(tenant: Tenant, rows: Iterable[DeclaredRole], actor: str) -> list[DeclaredRole]:
    """Return rows that `actor` sent, with the actor and the time for each role that changes."""
    current = roles.current(tenant)
    now = timezone.now()
    stamped = []
    for row in rows:
        before = current.row(row.agent)
        is_same = before is not None and before.role is row.role
        stamped.append(
            before if before and is_same else policy_agents.declare_role(row.agent, row.role.value, actor, now)
        )
    return stamped


MOST_TENANTS = 256

# Each kind with the key, number and time of its newest version. The number alone is not enough, because a restored
# database may use a number again.
Newest = tuple[tuple[str, int, int, object], ...]


def load_config(tenant_id: int) -> ValidationConfig:
    """Return the tenant's current configuration.

    One small query finds the newest versions. A process reads their contents only if one of them is new.
    """
    newest = _find_newest(tenant_id)
    slot = _slot(tenant_id)
    kept = slot.kept
    if kept is None or kept[0] != newest:
        kept = slot.kept = (newest, _load_config(newest))
    return kept[1]


def draft_config(tenant_id: int, kind: Kind, content: Mapping[str, Any]) -> ValidationConfig:
    """Return the current configuration with draft content of one kind in place of that kind's newest version.

    `content` has the form of the API (`{"sets": […]}`, `{"rows": […]}`). The configuration reports the current
    versions. If the draft changes a prompt, the name of the prompt contains `draft`. Raise `InvalidPolicy` for invalid
    content.
    """
    now = load_config(tenant_id)
    rows = KINDS[kind].from_plain(content)
    if kind is Kind.PROMPTS:
        return replace(now, prompts=policy_prompts.draft_prompts(rows, now.prompts, str(now.versions[kind])))
    return replace(now, **_PARTS[kind](rows, ""))


def shipped_config() -> ValidationConfig:
    """Return the configuration of a new tenant. The database is not read."""
    return _load_config(())


def replace_rows(config: ValidationConfig, rows: Mapping[Kind, Iterable[Any]]) -> ValidationConfig:
    """Return the configuration with its rows of some kinds replaced by `rows`. The database is not read."""
    parts: dict[str, Any] = {}
    for kind, part in _PARTS.items():
        if kind in rows:
            parts |= part(rows[kind], "draft")
    return replace(config, **parts)


class _Slot:
    """The configuration that was last read for a tenant, with the versions it was read from."""

    kept: tuple[Newest, ValidationConfig] | None = None


@lru_cache(maxsize=MOST_TENANTS)
def _slot(tenant_id: int) -> _Slot:
    return _Slot()


def _find_newest(tenant_id: int) -> Newest:
    """Return the newest version of each kind. The statement is SQL, because the ORM takes 2 ms to write it."""
    one = f"""
        SELECT * FROM (SELECT kind, id, number, changed_at FROM "{PolicyVersion._meta.db_table}"
        WHERE tenant_id = %s AND kind = %s ORDER BY number DESC LIMIT 1) AS newest
    """  # noqa: S608, SLF001 -- Django's documented API
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join([one] * len(_PARTS)), [part for kind in _PARTS for part in (tenant_id, kind.value)]
        )
        return tuple(sorted(cursor.fetchall()))


def _load_config(newest: Newest) -> ValidationConfig:
    contents = dict(PolicyVersion.objects.filter(pk__in=[pk for _, pk, *_ in newest]).values_list("kind", "content"))
    numbers = {kind: number for kind, _, number, _ in newest}
    parts: dict[str, Any] = {}
    for kind, part in _PARTS.items():
        versions = KINDS[kind]
        rows = versions.from_text(contents[kind]) if kind in contents else versions.shipped
        parts |= part(rows, str(numbers.get(kind, AS_SHIPPED)))
    versions_of = {kind.value: numbers.get(kind, AS_SHIPPED) for kind in _PARTS}
    return ValidationConfig(
        version=versions_of[Kind.STRICTNESS],
        versions=MappingProxyType(versions_of),
        known_agents=known_agents(),
        **parts,
    )


def _load_strictness(rows: Iterable[TypePolicy], version: str) -> dict[str, Any]:
    types = {row.handoff_type: row for row in rows}
    other = types.pop(ANY_OTHER_TYPE)
    return {"other": other, "types": MappingProxyType(types)}


def _load_rules(sets: Iterable[BusinessRuleSet], version: str) -> dict[str, Any]:
    return {"rules": tuple(sets)}


def _load_schemas(rows: Iterable[TypeSchema], version: str) -> dict[str, Any]:
    table = list(rows)
    return {
        "schemas": MappingProxyType({row.handoff_type: row.schema for row in table if row.schema is not None}),
        "claim_fields": MappingProxyType(
            {row.handoff_type: row.claim_fields for row in table if row.claim_fields is not None}
        ),
    }


def _load_prompts(rows: Iterable[PromptRow], version: str) -> dict[str, Any]:
    return {"prompts": policy_prompts.current_prompts(rows, version)}


def _load_roles(rows: Iterable[DeclaredRole], version: str) -> dict[str, Any]:
    return {"roles": MappingProxyType({row.agent: row.role for row in rows})}


# One function for each kind of policy that handoffs are judged by. The function makes fields of the configuration from
# rows and the name of their version.
_PARTS: dict[Kind, Callable[[Any, str], dict[str, Any]]] = {
    Kind.STRICTNESS: _load_strictness,
    Kind.RULES: _load_rules,
    Kind.SCHEMAS: _load_schemas,
    Kind.PROMPTS: _load_prompts,
    Kind.ROLES: _load_roles,
}
