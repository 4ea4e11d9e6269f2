"""What all kinds of policy have in common by API: how one is shown, and how it is saved."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Schema
from pydantic import Field

from handoffaudit.api import shapes
from handoffaudit.api.auth import caller
from handoffaudit.policy.versions import Table, Versions


class PolicyOut(Schema):
    version: int = Field(description="0: as shipped", examples=[3])
    changed_by: str = Field(description="Who saved it; empty as shipped.")
    changed_at: str | None = Field(description="When; null as shipped.")
    note: str = Field(description="Why, as it was said.")


class PolicyIn(Schema):
    base_version: int = Field(
        description="The `version` that the change was made on; 409 where there is a newer one.", examples=[3]
    )
    note: str = Field("", description="Why, for the history.")


def answer(request: HttpRequest, versions: Versions[Any]) -> HttpResponse:
    """What is in force in the caller's tenant."""
    return shapes.answer(shown(versions, versions.current(caller(request).tenant)))


def save(
    request: HttpRequest, versions: Versions[Any], change: PolicyIn, rows: Iterable[Mapping[str, Any]]
) -> HttpResponse:
    """Saves plain rows in the caller's tenant, and answers with what is in force then."""
    who = caller(request)
    saved = versions.save(
        tenant=who.tenant,
        base_version=change.base_version,
        rows=versions.parse(rows),
        actor=who.named,
        note=change.note,
    )
    return shapes.answer(shown(versions, saved))


def shown(versions: Versions[Any], table: Table[Any]) -> dict[str, Any]:
    return {
        "version": table.version,
        **versions.to_plain(table.rows),
        "changed_by": table.changed_by,
        "changed_at": shapes.moment(table.changed_at),
        "note": table.note,
    }
