"""Which handoffs are in a finding group. Diagnostics keeps them, above this room: it says how they are found."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from handoffaudit.accounts.models import Tenant

# Rows with the ids of handoffs in `handoff`, of a group of that tenant.
Members = Callable[[Tenant, int], "QuerySet[Any]"]

_found: list[Members] = []


def found_by(members: Members) -> None:
    _found[:] = [members]


def members(tenant: Tenant, group: int) -> "QuerySet[Any]":
    return _found[0](tenant, group)
