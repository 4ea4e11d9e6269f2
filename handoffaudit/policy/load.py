"""The current policies of a tenant as the configuration of the validation, and drafts of that configuration."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet, Subquery

from handoffaudit.policy import prompts
from handoffaudit.policy.agents import known_agents
from handoffaudit.policy.kinds import KINDS
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.policy.versions import AS_SHIPPED
from handoffaudit.validation.business_rules.rules import BusinessRuleSet
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy, ValidationConfig

MOST_TENANTS = 256

# The key, number and time of each kind's newest version: a restored database may use a number again.
Newest = tuple[tuple[str, int, int, datetime], ...]


def load(tenant_id: int) -> ValidationConfig:
    """Return the tenant's current configuration.

    One small query finds the newest versions; a process reads their content only once.
    """
    newest: Newest = tuple(_filter_newest(tenant_id).values_list("kind", "pk", "number", "changed_at"))
    slot = _slot(tenant_id)
    kept = slot.kept
    if kept is None or kept[0] != newest:
        kept = slot.kept = (newest, _load_config(newest))
    return kept[1]


def draft(tenant_id: int, kind: Kind, content: Mapping[str, Any]) -> ValidationConfig:
    """Return the current configuration with draft content of one kind in place of that kind's newest version.

    `content` is plain (`{"sets": […]}`, `{"rows": […]}`). The configuration reports the current versions, and names
    prompts that differ as a draft's. Raise `InvalidPolicy` for invalid content.
    """
    now = load(tenant_id)
    rows = KINDS[kind].from_plain(content)
    if kind is Kind.PROMPTS:
        return replace(now, prompts=prompts.draft_prompts(rows, now.prompts, str(now.versions[kind])))
    return replace(now, **_PARTS[kind](rows, ""))


class _Slot:
    """The configuration that was last read for a tenant, with the versions it was read from."""

    kept: tuple[Newest, ValidationConfig] | None = None


@lru_cache(maxsize=MOST_TENANTS)
def _slot(tenant_id: int) -> _Slot:
    return _Slot()


def _filter_newest(tenant_id: int) -> QuerySet[PolicyVersion]:
    one = PolicyVersion.objects.filter(tenant=tenant_id).order_by("-number").values("pk")
    newest: list[Any] = [Subquery(one.filter(kind=kind)[:1]) for kind in _PARTS]
    return PolicyVersion.objects.filter(pk__in=newest).order_by("kind")


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
    return {"prompts": prompts.current_prompts(rows, version)}


# For each kind that handoffs are judged by, a function from rows and the name of their version to parts of the
# configuration.
_PARTS: dict[Kind, Callable[[Any, str], dict[str, Any]]] = {
    Kind.STRICTNESS: _load_strictness,
    Kind.RULES: _load_rules,
    Kind.SCHEMAS: _load_schemas,
    Kind.PROMPTS: _load_prompts,
}
