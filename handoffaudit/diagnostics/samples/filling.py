"""Sample tenants made and filled.

What is to be done stands in the database: a sample tenant whose log does not say that it is filled is filled on, by
whichever worker. What is in it already is not put in twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from handoffaudit.accounts import audit, tenants
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.locking import lock
from handoffaudit.accounts.models import AuditEntry, Membership, Person, Role, Tenant
from handoffaudit.diagnostics.files import receiving
from handoffaudit.diagnostics.logs import storing
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.diagnostics.samples import bundled
from handoffaudit.handoffs import notify
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import WAITING_STATES, Handoff
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.validation.submission import Submission

TASK: Final = "handoffaudit.diagnostics.tasks.tend_samples"
NAME: Final = "Sample data"
MADE: Final = "sample.create"
FILLED: Final = "sample.fill"
PART: Final = 50
_MOST_SLUGS: Final = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sample tenant is filled; `number` of `total` handoffs are in it, `judged` of them judged."""

    number: int
    judged: int
    total: int
    filled: bool

    @property
    def done(self) -> bool:
        return self.filled and self.judged >= self.number


def make(*, person: Person, origin: Tenant) -> Tenant:
    """A sample tenant that `person` administers, filled soon after; the one that the person has, where there is one.

    It is told in the log of `origin`, the tenant that the person came from.
    """
    if origin.is_sample:
        raise Refused("This is sample data already.")
    with transaction.atomic():
        lock(origin)
        tenant = of_person(person)
        if tenant is None:
            tenant = _made(person, origin)
    transaction.on_commit(lambda: notify.send(TASK))
    return tenant


def of_person(person: Person) -> Tenant | None:
    return Tenant.objects.filter(is_sample=True, membership__person=person).order_by("pk").first()


def unfilled() -> "QuerySet[Tenant]":
    filled = AuditEntry.objects.filter(action=FILLED, tenant__is_sample=True).values("tenant")
    return Tenant.objects.filter(is_sample=True, membership__isnull=False).exclude(pk__in=filled).distinct()


def fill(tenant: Tenant) -> None:
    """Puts in what is not in it yet. It ends early where the tenant is removed meanwhile."""
    for part in _parts(bundled.submissions(tenant.slug)):
        if not _wanted(tenant):
            return
        store.accept_many(tenant, SYSTEM, part)
    for _ in _beside(tenant, tenant.created_at):
        if not _wanted(tenant):
            return
    with transaction.atomic():
        if _wanted(tenant) and not _filled(tenant):
            audit.record(tenant=tenant, actor=SYSTEM.name, action=FILLED, target=tenant.slug, detail={})


def fill_beside(tenant: Tenant) -> None:
    """Puts reports of handoff files and logs into a tenant of one's own, beside the sample's handoffs. They lead up to
    when that was done first; what is there is not put in twice."""
    handoff_id, at = bundled.first_report()
    first = Handoff.objects.filter(tenant=tenant, handoff_id=handoff_id).values("pk")
    report = FileReport.objects.filter(tenant=tenant, handoff__in=first).first()
    until = report.at + (bundled.ENDS_AT - at) if report else timezone.now().replace(microsecond=0)
    for _ in _beside(tenant, until):
        pass


def _beside(tenant: Tenant, until: datetime) -> Iterator[None]:
    """Part by part, so that whoever fills can end it."""
    for handoff_id, report in bundled.reports(until):
        yield
        receiving.receive(tenant, SYSTEM, report, handoff_id)
    for name, log in bundled.logs(until):
        yield
        storing.take(tenant, name, SYSTEM.name, [log])


def progress(tenant: Tenant) -> Progress:
    total = bundled.total()
    there = Handoff.objects.filter(tenant=tenant).order_by()
    number = there[:total].count()
    waiting = there.filter(state__in=WAITING_STATES)[:total].count()
    return Progress(number, number - waiting, total, _filled(tenant))


def _made(person: Person, origin: Tenant) -> Tenant:
    tenant = tenants.create(slug=_free_slug(), name=NAME, actor=person.username, is_sample=True)
    Membership.objects.create(tenant=tenant, person=person, role=Role.ADMIN)
    audit.record(tenant=origin, actor=person.username, action=MADE, target=tenant.slug, detail={})
    audit.record(tenant=tenant, actor=person.username, action=MADE, target=tenant.slug, detail={"from": origin.slug})
    return tenant


def _free_slug() -> str:
    taken = set(Tenant.objects.filter(slug__startswith="sample").values_list("slug", flat=True)[:_MOST_SLUGS])
    slugs = ("sample", *(f"sample-{number}" for number in range(2, _MOST_SLUGS)))
    free = next((slug for slug in slugs if slug not in taken), None)
    if free is None:
        raise Refused("There is sample data of too many people already: ask them to remove theirs.")
    return free


def _filled(tenant: Tenant) -> bool:
    return AuditEntry.objects.filter(tenant=tenant, action=FILLED).exists()


def _wanted(tenant: Tenant) -> bool:
    return Membership.objects.filter(tenant=tenant).exists()


def _parts(found: Iterator[Submission]) -> Iterator[Sequence[Submission]]:
    while part := list(islice(found, PART)):
        yield part
