"""What is in force in a tenant, as the core wants it."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from handoffaudit.policy.defaults import ROWS_AS_SHIPPED, VERSION_AS_SHIPPED
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.parsing import parse_rows
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy, ValidationConfig


def config_of(version: int, rows: Iterable[TypePolicy]) -> ValidationConfig:
    types = {row.handoff_type: row for row in rows}
    other = types.pop(ANY_OTHER_TYPE)
    return ValidationConfig(version=version, other=other, types=MappingProxyType(types))


_AS_SHIPPED = config_of(VERSION_AS_SHIPPED, ROWS_AS_SHIPPED)


def load(tenant_id: int) -> ValidationConfig:
    """The newest version: one small query to see which it is; its content is read once in a process."""
    newest = (
        PolicyVersion.objects.filter(tenant=tenant_id, kind=Kind.STRICTNESS)
        .order_by("-number")
        .values_list("pk", "number", "changed_at")
        .first()
    )
    return _read(*newest) if newest else _AS_SHIPPED


@lru_cache(maxsize=256)
def _read(pk: int, number: int, changed_at: datetime) -> ValidationConfig:
    # The time is part of what is remembered: a restored database may use a number again.
    content = PolicyVersion.objects.values_list("content", flat=True).get(pk=pk)
    return config_of(number, parse_rows(content["rows"]))
