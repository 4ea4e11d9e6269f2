"""Who is looking at what: soft holds of five minutes, which free themselves."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Person
from handoffaudit.handoffs.models import Handoff, ReviewHold


@dataclass(frozen=True, slots=True)
class Holder:
    person: Person
    until: datetime
    mine: bool


def hold(handoff: Handoff, person: Person) -> Holder:
    """Holds it for this person, unless somebody else does; who holds it now."""
    now = timezone.now()
    until = now + timedelta(seconds=settings.REVIEW_HOLD_SECONDS)
    with transaction.atomic():
        held, _ = ReviewHold.objects.select_for_update().get_or_create(
            handoff=handoff, defaults={"person": person, "until": until}
        )
        if held.person_id == person.pk or held.until <= now:
            held.person, held.until = person, until
            held.save()
    return Holder(held.person, held.until, mine=held.person_id == person.pk)


def release_others(handoff: Handoff, person: Person) -> None:
    """Lets go of everything else of that tenant which this person holds."""
    ReviewHold.objects.filter(person=person, handoff__tenant=handoff.tenant_id).exclude(handoff=handoff).delete()


def release(handoff: Handoff, person: Person) -> None:
    ReviewHold.objects.filter(handoff=handoff, person=person).delete()


def holders(handoffs: Iterable[Handoff]) -> dict[uuid.UUID, ReviewHold]:
    """The holds in force, by handoff."""
    rows = ReviewHold.objects.filter(handoff__in=[handoff.pk for handoff in handoffs], until__gt=timezone.now())
    return {row.handoff_id: row for row in rows.select_related("person")}
