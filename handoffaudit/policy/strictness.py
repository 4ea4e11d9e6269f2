"""The strictness table: one row for each handoff type, the last one for any other type."""

from handoffaudit.accounts.models import Tenant
from handoffaudit.policy import kinds, versions
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import Stale
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy

__all__ = [
    "AS_SHIPPED",
    "Stale",
    "Table",
    "at_version",
    "current",
    "delete_row",
    "difference",
    "history",
    "revert",
    "save",
    "upsert_row",
]

Table = versions.Table[TypePolicy]

AS_SHIPPED = kinds.strictness.as_shipped
current = kinds.strictness.current
at_version = kinds.strictness.at_version
history = kinds.strictness.history
difference = kinds.strictness.difference
save = kinds.strictness.save
upsert_row = kinds.strictness.upsert_row
revert = kinds.strictness.revert


def delete_row(*, tenant: Tenant, base_version: int, handoff_type: str, actor: str, note: str = "") -> Table:
    """The table without the type's row: the type then follows the row for any other type."""
    if handoff_type == ANY_OTHER_TYPE:
        remedy = "Change it, or add rows for single types."
        raise InvalidPolicy([PolicyError(handoff_type, "", None, "This row has to stay.", remedy)])
    return kinds.strictness.delete_row(
        tenant=tenant, base_version=base_version, name=handoff_type, actor=actor, note=note
    )
