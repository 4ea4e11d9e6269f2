"""What people decided: few among all, and found by partial indexes that have nothing else.

The states are written into the statement: SQLite takes such an index only where it reads them there. Their tables are
written with them, so these are no subqueries of others.
"""

from django.db.models import BooleanField, Exists, Model, OuterRef, QuerySet
from django.db.models.expressions import RawSQL

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Event, Handoff
from handoffaudit.handoffs.states import DECIDED, REVIEWABLE


def decided(tenant_id: int) -> "QuerySet[Handoff]":
    """Handoffs that are approved or declined."""
    return Handoff.objects.filter(_is_decided(Handoff, "state"), tenant=tenant_id)


def decisions(tenant: Tenant | int) -> "QuerySet[Event]":
    """The events that made a handoff approved or declined."""
    return Event.objects.filter(_is_decided(Event, "to_state"), tenant=tenant)


def standing(rows: "QuerySet[Event]") -> "QuerySet[Event]":
    """Those of `decisions` that nobody took back."""
    later = Event.objects.filter(handoff=OuterRef("handoff"), id__gt=OuterRef("pk"), from_state=OuterRef("to_state"))
    return rows.filter(~Exists(later.filter(to_state__in=REVIEWABLE)))


def decided_by(rows: "QuerySet[Handoff]", tenant: Tenant, name: str, *, rare: int) -> "QuerySet[Handoff]":
    """Those of `rows` that stand as this person or key decided them. Up to `rare` are looked up by their ids; more are
    met soon enough in the rows' own order."""
    found = list(standing(decisions(tenant).filter(actor=name)).values_list("handoff", flat=True)[: rare + 1])
    if len(found) <= rare:
        return rows.filter(pk__in=found)
    made = Event.objects.filter(handoff=OuterRef("pk"), actor=name, to_state__in=DECIDED)
    return rows.filter(Exists(standing(made)))


def _is_decided(model: type[Model], column: str) -> RawSQL:
    table = model._meta.db_table  # noqa: SLF001 -- Django's documented API
    sql = f"\"{table}\".\"{column}\" IN ('approved', 'declined')"
    return RawSQL(sql, (), output_field=BooleanField())  # noqa: S611 -- nothing of anybody's is in it
