"""Sample tenants: their creation, the filling in the background from the bundled sample, and their removal."""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson
from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

import handoffaudit
from handoffaudit.accounts import Refused, audit, keys, tenants
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import AuditEntry, Key, Membership, Person, Role, Tenant
from handoffaudit.diagnostics import file_reports
from handoffaudit.diagnostics.logs import store
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs import legal_holds, notify
from handoffaudit.handoffs.ingest import store as ingest_store
from handoffaudit.handoffs.ingest.prepare import read_submission
from handoffaudit.handoffs.models import WAITING_STATES, Handoff
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.times import utc_text

FOLDER: Final = Path(handoffaudit.__file__).parent / "samples"

# The reports and log lines of the bundled sample end at this time. Filling a tenant moves their times to the present.
ENDS_AT: Final = datetime(2026, 2, 14, 12, tzinfo=UTC)

_REPORTS: Final = {"handoff-files.json.gz": "sample-file-", "handoff-files-made.json.gz": "sample-made-file-"}

_LOGS: Final = {"agents.log.gz": "sample: work orders", "runtimes.log.gz": "sample: runtimes"}

_TIME: Final = re.compile(r"\b2026-02-\d\dT\d\d:\d\d:\d\dZ")


@cache
def count_submissions() -> int:
    """Return the number of handoffs in the sample, including handoffs made from file reports."""
    return sum(1 for _ in bundled_submissions("")) + sum(1 for _ in bundled_reports(ENDS_AT))


def bundled_submissions(tenant_slug: str) -> Iterator[Submission]:
    """Yield the sample's handoffs as submissions of the tenant, each with the same id in every call."""
    for path in sorted(FOLDER.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            yield _make_submission(line, tenant_slug)


def bundled_reports(until: datetime) -> Iterator[tuple[str, bytes]]:
    """Yield the id and content of each handoff file report, with times moved so that the sample ends at `until`."""
    for name, begins in _REPORTS.items():
        for number, report in enumerate(orjson.loads(_read_gzip(name))):
            yield f"{begins}{number}", orjson.dumps(report | {"timestamp": _move_time(report["timestamp"], until)})


def first_report() -> tuple[str, datetime]:
    """Return the id of the first report, and the time that the bundled file gives for this report."""
    name, begins = next(iter(_REPORTS.items()))
    return f"{begins}0", datetime.fromisoformat(orjson.loads(_read_gzip(name))[0]["timestamp"])


def bundled_logs(until: datetime) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each log, with times moved so that the sample ends at `until`."""
    for file, name in _LOGS.items():
        yield name, _TIME.sub(lambda found: _move_time(found[0], until), _read_gzip(file).decode()).encode()


def _make_submission(line: bytes, tenant_slug: str) -> Submission:
    sent: dict[str, Any] = orjson.loads(line)
    derived = f"sample-{hashlib.sha256(line).hexdigest()[:40]}"
    if "raw" in sent:
        return Submission(sent["raw"].encode(), format=sent.get("format"), envelope=Envelope(handoff_id=derived))
    document = sent["document"]
    if "tenant_id" in document:
        document["tenant_id"] = tenant_slug
    return read_submission(orjson.dumps(sent), handoff_id=document.get("handoff_id") or derived)


def _read_gzip(name: str) -> bytes:
    return gzip.decompress((FOLDER / name).read_bytes())


def _move_time(time: str, until: datetime) -> str:
    return utc_text(until - (ENDS_AT - datetime.fromisoformat(time)))


TASK: Final = "handoffaudit.diagnostics.tasks.tend_samples"

NAME: Final = "Sample data"

MADE: Final = "sample.create"

FILLED: Final = "sample.fill"

PART: Final = 50

_MOST_SLUGS: Final = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a sample tenant, which has `number` of the sample's `total` handoffs, `judged` of them judged."""

    number: int
    judged: int
    total: int
    filled: bool

    @property
    def done(self) -> bool:
        return self.filled and self.judged >= self.number


def create_sample(*, person: Person, origin: Tenant) -> Tenant:
    """Return the person's sample tenant, or create one that the person administers.

    A worker then fills a new sample tenant. The audit log of `origin`, the tenant in which the person is now, records
    the creation. Raise `Refused` if `origin` is a sample tenant, or if there are too many sample tenants.
    """
    if origin.is_sample:
        raise Refused("This tenant is a sample tenant already.")
    with transaction.atomic():
        # Every creation takes this lock, so that a person gets one sample tenant, and no two tenants the same slug.
        lock_tenant(Tenant.objects.filter(is_sample=False).earliest("pk"))
        tenant = of_person(person)
        if tenant is None:
            tenant = _create(person, origin)
    transaction.on_commit(lambda: notify.send(TASK))
    return tenant


def of_person(person: Person) -> Tenant | None:
    return Tenant.objects.filter(is_sample=True, membership__person=person).order_by("pk").first()


def list_unfilled() -> "QuerySet[Tenant]":
    filled = AuditEntry.objects.filter(action=FILLED, tenant__is_sample=True).values("tenant")
    return Tenant.objects.filter(is_sample=True, membership__isnull=False).exclude(pk__in=filled).distinct()


def fill_sample(tenant: Tenant) -> None:
    """Store the sample data that the tenant does not have yet. Stop early if the tenant is removed meanwhile."""
    for part in _batch_submissions(bundled_submissions(tenant.slug)):
        if not _is_wanted(tenant):
            return
        ingest_store.accept_many(tenant, SYSTEM, part)
    for _ in _store_reports_and_logs(tenant, tenant.created_at):
        if not _is_wanted(tenant):
            return
    with transaction.atomic():
        if _is_wanted(tenant) and not _is_filled(tenant):
            audit.record(tenant=tenant, actor=SYSTEM.name, action=FILLED, target=tenant.slug, detail={})


def fill_beside(tenant: Tenant) -> None:
    """Store the sample's file reports and logs in an ordinary tenant that has the sample's handoffs.

    The data ends at the time of the first call. Data that is stored already is not stored again.
    """
    handoff_id, at = first_report()
    first = Handoff.objects.filter(tenant=tenant, handoff_id=handoff_id).values("pk")
    report = FileReport.objects.filter(tenant=tenant, handoff__in=first).first()
    until = report.at + (ENDS_AT - at) if report else timezone.now().replace(microsecond=0)
    for _ in _store_reports_and_logs(tenant, until):
        pass


def _store_reports_and_logs(tenant: Tenant, until: datetime) -> Iterator[None]:
    """Store reports and logs one by one. Yield before each of them, so that the caller can stop."""
    for handoff_id, report in bundled_reports(until):
        yield
        file_reports.receive_report(tenant, SYSTEM, report, handoff_id)
    for name, log in bundled_logs(until):
        yield
        store.store_log(tenant, name, SYSTEM.name, [log])


def load_progress(tenant: Tenant) -> Progress:
    total = count_submissions()
    there = Handoff.objects.filter(tenant=tenant).order_by()
    number = there[:total].count()
    waiting = there.filter(state__in=WAITING_STATES)[:total].count()
    return Progress(number, number - waiting, total, _is_filled(tenant))


def _create(person: Person, origin: Tenant) -> Tenant:
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
        raise Refused("Too many people have sample data already: ask them to remove it.")
    return free


def _is_filled(tenant: Tenant) -> bool:
    return AuditEntry.objects.filter(tenant=tenant, action=FILLED).exists()


def _is_wanted(tenant: Tenant) -> bool:
    return Membership.objects.filter(tenant=tenant).exists()


def _batch_submissions(found: Iterator[Submission]) -> Iterator[Sequence[Submission]]:
    while part := list(islice(found, PART)):
        yield part


REMOVED: Final = "sample.remove"

APPS: Final = ("accounts", "policy", "handoffs", "diagnostics")

CLEARED_AT_ONCE: Final = 200

# After this time, a worker that leased one of the tenant's handoffs before the removal has ended its work.
_SETTLES: Final = timedelta(minutes=2)

Model = type[models.Model]


def remove_sample(*, tenant: Tenant, person: Person) -> Tenant | None:
    """Remove all members and keys of the sample tenant, so that a worker deletes its rows.

    Return the tenant from which the sample was created, or None if the person is no longer a member of that tenant.
    Raise `Refused` under a legal hold, and for a tenant that is not a sample tenant, because this function must not
    remove real data.
    """
    if not tenant.is_sample:
        raise Refused("Only sample data can be removed: this tenant holds your own handoffs.")
    if legal_holds.read(tenant):
        raise Refused("A legal hold keeps this sample data: lift the hold first.")
    with transaction.atomic():
        origin = _find_origin(tenant)
        secrets = list(Key.objects.filter(tenant=tenant).values_list("secret_hash", flat=True))
        Key.objects.filter(tenant=tenant).delete()
        Membership.objects.filter(tenant=tenant).delete()
        # Every change that locks two tenants locks them in the order of their ids, so that two changes cannot deadlock.
        informed = sorted((one for one in (origin, tenant) if one), key=lambda one: one.pk)
        for one in informed:
            audit.record(tenant=one, actor=person.username, action=REMOVED, target=tenant.slug, detail={})
    for secret in secrets:
        keys.forget_key(secret)
    notify.send(TASK)
    is_theirs = origin is not None and Membership.objects.filter(tenant=origin, person=person).exists()
    return origin if is_theirs else None


def list_removed() -> "QuerySet[Tenant]":
    """Return the sample tenants without members."""
    return Tenant.objects.filter(is_sample=True, membership__isnull=True)


def clear_sample(tenant: Tenant, now: datetime | None = None) -> bool:
    """Delete the rows of a removed sample tenant, and return whether the tenant itself is deleted.

    The empty tenant stays for a while. Other processes may still have one of its keys in their cache, or a lease on one
    of its handoffs. Under a legal hold, nothing is deleted. Raise `Refused` for a tenant that is not a removed sample
    tenant.
    """
    if not list_removed().filter(pk=tenant.pk).exists():
        raise Refused("Only sample data that was removed can be cleared.")
    if legal_holds.read(tenant):
        return False
    for model in tenant_models():
        while _delete_part(model, tenant):
            pass
    last_entry_at = AuditEntry.objects.filter(tenant=tenant).aggregate(at=Max("at"))["at"]
    settles = _SETTLES + timedelta(seconds=settings.KEY_CACHE_SECONDS)
    if last_entry_at is not None and (now or timezone.now()) < last_entry_at + settles:
        return False
    with transaction.atomic():
        AuditEntry.objects.filter(tenant=tenant).delete()
        Tenant.objects.filter(pk=tenant.pk).delete()
    return True


def anything_to_clear() -> bool:
    """Return whether a removed sample tenant still exists."""
    return list_removed().exists()


@cache
def tenant_models() -> Sequence[Model]:
    """Return all models with a column for the tenant, except the audit log, which is deleted with the tenant."""
    return [model for model in _list_models() if _names_tenant(model) and model is not AuditEntry]


@cache
def dependent_models() -> Mapping[Model, Sequence[tuple[Model, str]]]:
    """Return the models without a column for the tenant, by the model to which they refer, with the referring column.

    Rows of these models are deleted together with the rows to which they refer.
    """
    found: dict[Model, list[tuple[Model, str]]] = {}
    for model in _list_models():
        if not _names_tenant(model):
            for field in _references(model):
                found.setdefault(field.related_model, []).append((model, field.name))
    return found


def _delete_part(model: Model, tenant: Tenant) -> int:
    pks = list(QuerySet(model).filter(tenant=tenant).values_list("pk", flat=True)[:CLEARED_AT_ONCE])
    with transaction.atomic():
        for part, column in dependent_models().get(model, ()):
            QuerySet(part).filter(**{f"{column}__in": pks}).delete()
        QuerySet(model).filter(pk__in=pks).delete()
    return len(pks)


def _find_origin(tenant: Tenant) -> Tenant | None:
    made = AuditEntry.objects.filter(tenant=tenant, action=MADE).order_by("number").first()
    slug = made.detail.get("from", "") if made else ""
    return Tenant.objects.filter(slug=slug).first()


def _list_models() -> Iterator[Model]:
    for name in APPS:
        yield from apps.get_app_config(name).get_models()


def _names_tenant(model: Model) -> bool:
    return any(field.name == "tenant" for field in _list_columns(model))


def _references(model: Model) -> Iterator[Any]:
    for field in _list_columns(model):
        if field.remote_field is not None and _names_tenant(field.related_model):
            yield field


def _list_columns(model: Model) -> Sequence[Any]:
    return model._meta.concrete_fields  # noqa: SLF001 -- Django's documented API
