"""What is in force in a tenant, as the core wants it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from django.db.models import QuerySet, Subquery

from handoffaudit.policy.kinds import KINDS
from handoffaudit.policy.known_agents import known_agents
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.type_schemas import TypeSchema
from handoffaudit.policy.versions import AS_SHIPPED
from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy, ValidationConfig

MOST_TENANTS = 256

# Of each kind's newest version its key, number and time: a restored database may use a number again.
Newest = tuple[tuple[str, int, int, datetime], ...]


def load(tenant_id: int) -> ValidationConfig:
    """One small query to see which versions are the newest; their content is read once in a process."""
    newest: Newest = tuple(_newest(tenant_id).values_list("kind", "pk", "number", "changed_at"))
    slot = _slot(tenant_id)
    kept = slot.kept
    if kept is None or kept[0] != newest:
        kept = slot.kept = (newest, _read(newest))
    return kept[1]


def draft(tenant_id: int, kind: Kind, content: Mapping[str, Any]) -> ValidationConfig:
    """What is in force, with plain content of one kind (`{"sets": […]}`, `{"rows": […]}`) in place of its newest
    version; the versions are told as those in force. Raises `InvalidPolicy`."""
    return replace(load(tenant_id), **_PARTS[kind](KINDS[kind].from_plain(content)))


class _Slot:
    """What was read last for one tenant."""

    kept: tuple[Newest, ValidationConfig] | None = None


@lru_cache(maxsize=MOST_TENANTS)
def _slot(tenant_id: int) -> _Slot:
    return _Slot()


def _newest(tenant_id: int) -> QuerySet[PolicyVersion]:
    one = PolicyVersion.objects.filter(tenant=tenant_id).order_by("-number").values("pk")
    return PolicyVersion.objects.filter(pk__in=[Subquery(one.filter(kind=kind)[:1]) for kind in Kind]).order_by("kind")


def _read(newest: Newest) -> ValidationConfig:
    contents = dict(PolicyVersion.objects.filter(pk__in=[pk for _, pk, *_ in newest]).values_list("kind", "content"))
    numbers = {kind: number for kind, _, number, _ in newest}
    parts: dict[str, Any] = {}
    for kind, versions in KINDS.items():
        rows = versions.from_text(contents[kind]) if kind in contents else versions.shipped
        parts |= _PARTS[kind](rows)
    versions_of = {kind.value: numbers.get(kind, AS_SHIPPED) for kind in Kind}
    return ValidationConfig(
        version=versions_of[Kind.STRICTNESS],
        versions=MappingProxyType(versions_of),
        known_agents=known_agents(),
        **parts,
    )


def _of_strictness(rows: Iterable[TypePolicy]) -> dict[str, Any]:
    types = {row.handoff_type: row for row in rows}
    other = types.pop(ANY_OTHER_TYPE)
    return {"other": other, "types": MappingProxyType(types)}


def _of_rules(sets: Iterable[BusinessRuleSet]) -> dict[str, Any]:
    return {"rules": tuple(sets)}


def _of_schemas(rows: Iterable[TypeSchema]) -> dict[str, Any]:
    table = list(rows)
    return {
        "schemas": MappingProxyType({row.handoff_type: row.schema for row in table if row.schema is not None}),
        "claim_fields": MappingProxyType(
            {row.handoff_type: row.claim_fields for row in table if row.claim_fields is not None}
        ),
    }


_PARTS: dict[Kind, Callable[[Any], dict[str, Any]]] = {
    Kind.STRICTNESS: _of_strictness,
    Kind.RULES: _of_rules,
    Kind.SCHEMAS: _of_schemas,
}
