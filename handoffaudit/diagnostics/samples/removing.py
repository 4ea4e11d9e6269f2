"""A sample tenant removed, with every row that is its own (`docs/decisions/0032-sample-tenant.md`).

At the click nobody belongs to it any more and its keys are gone: it can't be reached. A worker then deletes its rows in
parts. The tenant's own row goes last, once no process can hold one of its keys or handoffs any more.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from handoffaudit.accounts import audit, key_cache
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import AuditEntry, Key, Membership, Person, Tenant
from handoffaudit.diagnostics.samples.filling import MADE, TASK
from handoffaudit.handoffs import notify

REMOVED: Final = "sample.remove"
APPS: Final = ("accounts", "policy", "handoffs", "diagnostics")
PART: Final = 200
# A worker that took one of its handoffs before the click has given up by then.
_SETTLES: Final = timedelta(minutes=2)

Model = type[models.Model]


def remove(*, tenant: Tenant, person: Person) -> Tenant | None:
    """Shuts the sample tenant, and has its rows deleted soon after. The tenant that it was made from, for the person
    to go back to: None where that is not theirs any more.

    Any other tenant is refused: what is real is never removed.
    """
    if not tenant.is_sample:
        raise Refused("Only sample data can be removed: this tenant holds handoffs of your own.")
    with transaction.atomic():
        origin = _origin(tenant)
        secrets = list(Key.objects.filter(tenant=tenant).values_list("secret_hash", flat=True))
        Key.objects.filter(tenant=tenant).delete()
        Membership.objects.filter(tenant=tenant).delete()
        # Tenants are locked in the order of their ids, as wherever two are.
        told = sorted((one for one in (origin, tenant) if one), key=lambda one: one.pk)
        for one in told:
            audit.record(tenant=one, actor=person.username, action=REMOVED, target=tenant.slug, detail={})
    for secret in secrets:
        key_cache.forget(secret)
    notify.send(TASK)
    is_theirs = origin is not None and Membership.objects.filter(tenant=origin, person=person).exists()
    return origin if is_theirs else None


def removed() -> "QuerySet[Tenant]":
    """Sample tenants that nobody belongs to."""
    return Tenant.objects.filter(is_sample=True, membership__isnull=True)


def clear(tenant: Tenant, now: datetime | None = None) -> bool:
    """Deletes the rows of a removed sample tenant; whether the tenant is gone with them. Until it has settled it stays,
    empty: a process may still know one of its keys, or hold one of its handoffs."""
    if not removed().filter(pk=tenant.pk).exists():
        raise Refused("Only sample data that was removed can be cleared.")
    for model in owned():
        while _delete_part(model, tenant):
            pass
    asked = AuditEntry.objects.filter(tenant=tenant).aggregate(at=Max("at"))["at"]
    settles = _SETTLES + timedelta(seconds=settings.KEY_CACHE_SECONDS)
    if asked is not None and (now or timezone.now()) < asked + settles:
        return False
    with transaction.atomic():
        AuditEntry.objects.filter(tenant=tenant).delete()
        Tenant.objects.filter(pk=tenant.pk).delete()
    return True


def anything_to_clear() -> bool:
    """Whether a removed one is still there."""
    return removed().exists()


@cache
def owned() -> Sequence[Model]:
    """Every model whose rows name their tenant, but the log, which goes with the tenant itself."""
    return [model for model in _models() if _names_tenant(model) and model is not AuditEntry]


@cache
def parts_of() -> Mapping[Model, Sequence[tuple[Model, str]]]:
    """Models whose rows name no tenant but a row that does: they are deleted with that one. By the owner's model, with
    the name of the column."""
    found: dict[Model, list[tuple[Model, str]]] = {}
    for model in _models():
        if not _names_tenant(model):
            for field in _references(model):
                found.setdefault(field.related_model, []).append((model, field.name))
    return found


def _delete_part(model: Model, tenant: Tenant) -> int:
    pks = list(QuerySet(model).filter(tenant=tenant).values_list("pk", flat=True)[:PART])
    with transaction.atomic():
        for part, column in parts_of().get(model, ()):
            QuerySet(part).filter(**{f"{column}__in": pks}).delete()
        QuerySet(model).filter(pk__in=pks).delete()
    return len(pks)


def _origin(tenant: Tenant) -> Tenant | None:
    made = AuditEntry.objects.filter(tenant=tenant, action=MADE).order_by("number").first()
    slug = made.detail.get("from", "") if made else ""
    return Tenant.objects.filter(slug=slug).first()


def _models() -> Iterator[Model]:
    for name in APPS:
        yield from apps.get_app_config(name).get_models()


def _names_tenant(model: Model) -> bool:
    return any(field.name == "tenant" for field in _columns(model))


def _references(model: Model) -> Iterator[Any]:
    for field in _columns(model):
        if field.remote_field is not None and _names_tenant(field.related_model):
            yield field


def _columns(model: Model) -> Sequence[Any]:
    return model._meta.concrete_fields  # noqa: SLF001 -- Django's documented API
