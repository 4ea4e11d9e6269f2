"""What was decided of handoffs alike: the same codes, and the same type or the same two agents."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import orjson
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from handoffaudit.handoffs import counts
from handoffaudit.handoffs.decisions import decided
from handoffaudit.handoffs.models import Event, Handoff
from handoffaudit.handoffs.states import DECIDED

# Of the newest decided ones of the type, and of the two agents, so many are compared.
LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Precedent:
    """A decided handoff, and the decision: `approved` or `declined`, by whom, when, with which note."""

    handoff: Handoff
    decision: str
    note: str
    actor: str
    at: datetime


def similar(handoff: Handoff, limit: int = 5) -> list[Precedent]:
    """The decisions made last, newest first."""
    past = decided(handoff.tenant_id)
    of_type = past.filter(handoff_type=handoff.handoff_type)
    of_pair = past.filter(source_agent_id=handoff.source_agent_id, target_agent_id=handoff.target_agent_id)
    wanted = _compared(handoff.codes)
    alike = {pk for rows in (of_type, of_pair) for pk in _with_codes(rows, wanted)} - {handoff.pk}
    newest = sorted(alike, reverse=True)[: limit * 10]
    made = _decisions(handoff.tenant_id, newest)[:limit]
    handoffs = Handoff.objects.in_bulk([event.handoff_id for event in made])
    return [
        Precedent(handoffs[event.handoff_id], event.to_state, event.reason, event.actor, event.at) for event in made
    ]


def _with_codes(rows: "QuerySet[Handoff]", wanted: frozenset[str]) -> Iterable[uuid.UUID]:
    # As text: the same few lists stand in most rows, and each is read once.
    found = rows.order_by("-id").values_list("pk", Cast("codes", TextField()))[:LOOKED_AT]
    alike: dict[str, bool] = {}
    for pk, codes in found:
        if codes not in alike:
            alike[codes] = _compared(orjson.loads(codes)) == wanted
        if alike[codes]:
            yield pk


def _compared(codes: Iterable[str]) -> frozenset[str]:
    """Whether the model could be asked makes no difference."""
    return frozenset(codes) - {counts.UNVERIFIED}


def _decisions(tenant_id: int, handoffs: list[uuid.UUID]) -> list[Event]:
    """The last one on each, newest first."""
    rows = Event.objects.filter(tenant=tenant_id, handoff__in=handoffs, to_state__in=DECIDED).order_by("id")
    last = {event.handoff_id: event for event in rows if event.from_state != event.to_state}
    return sorted(last.values(), key=lambda event: (event.at, event.pk), reverse=True)
