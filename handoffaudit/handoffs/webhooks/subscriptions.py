"""Webhooks (`Subscriber` rows): creating, changing, switching and deleting them, each with an audit record."""

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import leases
from handoffaudit.handoffs.models import Delivery, Event, Gathering, State, Subscriber, SubscriberKind
from handoffaudit.handoffs.webhooks.client import BadAddress, new_secret, resolve, take_place

MOST = 50

VERDICTS = (State.ACCEPTED, State.REJECTED, State.HELD)

# A process caches for this many seconds whether any webhook is active. The sweep of a worker finds events that the
# process does not announce meanwhile.
ACTIVE_CACHE_SECONDS = 5.0


class EventType(StrEnum):
    """The events that a webhook can subscribe to."""

    VERDICT = "verdict"
    DECISION = "decision"
    ALERT = "alert"
    GROUP = "group"
    COMMENT = "comment"
    ASSIGNMENT = "assignment"
    COMPLIANCE = "compliance"


@dataclass(frozen=True, slots=True)
class EventText:
    """The description of an event.

    `meaning` completes the sentence "is sent when …" for the form and the documentation. `fields` names the fields of
    the payload in Markdown, and `note` may say more; `docs/webhooks.md` shows both.
    """

    meaning: str
    fields: str
    note: str = ""


EVENT_TEXTS: Final = {
    EventType.VERDICT: EventText(
        "a handoff is accepted, rejected or held, or is flagged later (no verdict is sent by e-mail)",
        "`handoff`",
        "You can select some of the three states. Only a handoff that was accepted or approved unverified can be "
        "flagged later. A handoff that was approved and is flagged later is sent if you select `accepted`.",
    ),
    EventType.DECISION: EventText(
        "a handoff is approved or declined",
        "`handoff`, `actor` (`kind`, `name`) and `note`",
        "Also sent when an approval carries over to a retry with the same document (`kind` is `system`), and when a "
        "person reopens the handoff. The state of a reopened handoff is `held` or `rejected` again. A first decision "
        "that waits for a second person is not sent.",
    ),
    EventType.ALERT: EventText(
        "an alert opens, is still active, or closes",
        "`alert`: `id`, `kind`, `change` (`opened`, `again`, `closed`), `level` (`warning`, `alert`), `value`, `text`, "
        "`meaning`, `opened_at`, `link`",
        "An alert whose level changed is sent again, too ([alerts](alerts.md)).",
    ),
    EventType.GROUP: EventText(
        "a muted finding group has grown past its limit",
        "`group`: `id`, `change` (`regressed`), `code`, `title`, `path`, `routes` (at most ten: `source_agent_id`, "
        "`target_agent_id`, `handoffs`), `number`, `muted_by`, `muted_note`, `first_seen`, `last_seen`, `link`",
        "Sent once each time this happens ([groups](groups.md)).",
    ),
    EventType.COMMENT: EventText(
        "somebody comments on a handoff",
        "`handoff`, `actor` (`kind`, `name`) and `comment`: `id`, `text`",
        "Edited and removed comments are not sent.",
    ),
    EventType.ASSIGNMENT: EventText(
        "somebody assigns a handoff to a person or to nobody",
        "`handoff`, `actor` (`kind`, `name`) and `assignment`: `to` (null: nobody), `note`",
    ),
    EventType.COMPLIANCE: EventText(
        "a week is over: the compliance report, on Monday at 06:00 UTC",
        "`report`: `week` (its Monday), `acceptance_rate` and `file_compliance` (`part`, `total`, `percent`, "
        "`percent_before`, `agents`: at most 20), `link`",
        "Each report is sent once to each receiver.",
    ),
}

# People cannot subscribe to verdicts by e-mail, because nobody would read a mail for each verdict.
EVENTS = {
    SubscriberKind.WEBHOOK: tuple(EventType),
    SubscriberKind.SLACK: tuple(EventType),
    SubscriberKind.TEAMS: tuple(EventType),
    SubscriberKind.EMAIL: tuple(event for event in EventType if event is not EventType.VERDICT),
}


@dataclass(frozen=True, slots=True)
class SubscriptionValues:
    """The values that a person enters for a webhook. `states` limits verdicts to these states; empty means all."""

    name: str
    address: str
    events: Collection[str]
    states: Collection[str] = ()


def create(*, tenant: Tenant, kind: str, wanted: SubscriptionValues, actor: str) -> Subscriber:
    """Create a webhook, with a secret if its requests are signed.

    Raise `Refused` for an invalid value, or if the tenant has `MOST` webhooks already, and `Busy`.
    """
    if kind not in SubscriberKind.values:
        remedy = f"choose from {', '.join(SubscriberKind.values)}."
        raise Refused(f"{kind[:40]!r} is not a kind of webhook", "kind", remedy)
    with take_place(tenant.pk):
        columns = _check_values(SubscriberKind(kind), wanted)
    with transaction.atomic():
        lock_tenant(tenant)
        if Subscriber.objects.filter(tenant=tenant).count() >= MOST:
            raise Refused(f"There are {MOST} webhooks already: delete a webhook that nobody needs.")
        _begin_if_first()
        secret = new_secret() if kind == SubscriberKind.WEBHOOK else ""
        made = Subscriber.objects.create(tenant=tenant, kind=kind, secret=secret, created_by=actor[:200], **columns)
        _record(made, actor, "create", kind=kind, **_describe(made.kind, columns))
    _clear_cache()
    return made


def change(*, tenant: Tenant, pk: int, wanted: SubscriptionValues, actor: str) -> Subscriber:
    """Change a webhook. Raise `Refused` for an invalid value, `Subscriber.DoesNotExist`, or `Busy`."""
    kind = SubscriberKind(get(tenant, pk).kind)
    with take_place(tenant.pk):
        columns = _check_values(kind, wanted)
    with transaction.atomic():
        found = _lock(tenant, pk)
        changed = {name: value for name, value in columns.items() if getattr(found, name) != value}
        for name, value in columns.items():
            setattr(found, name, value)
        found.save(update_fields=list(columns))
        if changed:
            _record(found, actor, "change", **_describe(found.kind, changed))
    return found


@transaction.atomic
def switch(*, tenant: Tenant, pk: int, on: bool, actor: str) -> Subscriber:
    """Switch a webhook on or off. Idempotent. Raise `Subscriber.DoesNotExist`.

    A webhook that is off receives no events, but its waiting deliveries stay. After a webhook is switched on, these
    deliveries are sent, except those that waited for more than three days without a try.
    """
    found = _lock(tenant, pk)
    if found.active == on:
        return found
    now = timezone.now()
    waits = Delivery.objects.filter(tenant=tenant, subscriber=found, delivered_at=None, gave_up_at=None)
    if on:
        _begin_if_first()
        found.heard_from = now
        waits.filter(due_at=None).update(due_at=now)
    else:
        leases.end(waits, until="due_at")
    found.active = on
    found.save(update_fields=["active", "heard_from"])
    _record(found, actor, "resume" if on else "pause")
    transaction.on_commit(_clear_cache)
    return found


@transaction.atomic
def rotate(*, tenant: Tenant, pk: int, actor: str) -> Subscriber:
    """Replace the secret of a webhook. The new secret signs all later requests. Raise `Subscriber.DoesNotExist`."""
    found = _lock(tenant, pk)
    found.secret = new_secret()
    found.save(update_fields=["secret"])
    _record(found, actor, "rotate")
    return found


@transaction.atomic
def delete(*, tenant: Tenant, pk: int, actor: str) -> Subscriber:
    """Delete a webhook with its deliveries. Raise `Subscriber.DoesNotExist`."""
    found = _lock(tenant, pk)
    _record(found, actor, "delete")
    # A cascade would read every payload.
    deliveries = Delivery.objects.filter(tenant=tenant, subscriber=found)
    deliveries._raw_delete(deliveries.db)  # noqa: SLF001
    Subscriber.objects.filter(pk=found.pk).delete()
    return found


def get(tenant: Tenant, pk: int) -> Subscriber:
    return Subscriber.objects.get(tenant=tenant, pk=pk)


def list_subscribers(tenant: Tenant) -> list[Subscriber]:
    return list(Subscriber.objects.filter(tenant=tenant).order_by("-active", "name", "pk")[:MOST])


def list_active() -> dict[int, list[Subscriber]]:
    """Return the active webhooks by tenant."""
    found: dict[int, list[Subscriber]] = {}
    for one in Subscriber.objects.filter(active=True).select_related("tenant").order_by("pk"):
        found.setdefault(one.tenant_id, []).append(one)
    return found


_cached_active: tuple[float, bool] = (0.0, False)


def has_active() -> bool:
    """Return whether any webhook is active, cached for `ACTIVE_CACHE_SECONDS`."""
    global _cached_active  # noqa: PLW0603 -- each process has its own cache
    until, answer = _cached_active
    if time.monotonic() > until:
        answer = Subscriber.objects.filter(active=True).exists()
        _cached_active = (time.monotonic() + ACTIVE_CACHE_SECONDS, answer)
    return answer


def _clear_cache() -> None:
    global _cached_active  # noqa: PLW0603
    _cached_active = (0.0, False)


def _begin_if_first() -> None:
    """If no webhook is active, skip all events so far, because no webhook is to receive them."""
    if Subscriber.objects.filter(active=True).exists():
        return
    reached = Event.objects.aggregate(last=Max("id"))["last"] or 0
    gathering, is_new = Gathering.objects.select_for_update().get_or_create(pk=1, defaults={"reached": reached})
    if not is_new:
        gathering.reached, gathering.gaps = reached, []
        gathering.pass_number += 1
        gathering.save()


def _lock(tenant: Tenant, pk: int) -> Subscriber:
    lock_tenant(tenant)
    return Subscriber.objects.select_for_update().get(tenant=tenant, pk=pk)


def _record(subscriber: Subscriber, actor: str, action: str, **detail: object) -> None:
    audit.record(
        tenant=subscriber.tenant,
        actor=actor,
        action=f"subscriber.{action}",
        target=subscriber.name,
        detail=detail,
    )


def _describe(kind: str, columns: Mapping[str, object]) -> dict[str, object]:
    """Return the columns for the audit log. The address of a chat is a secret, so its host and its hash replace it."""
    if kind not in (SubscriberKind.SLACK, SubscriberKind.TEAMS) or "address" not in columns:
        return dict(columns)
    address = str(columns["address"])
    host, digest = urlsplit(address).hostname, hashlib.sha256(address.encode()).hexdigest()
    return {**columns, "address": host, "address_sha256": digest}


def _check_values(kind: SubscriberKind, wanted: SubscriptionValues) -> dict[str, object]:
    name, remedy = wanted.name.strip(), "use 1 to 100 printable characters that say who receives the events."
    if not name:
        raise Refused("A name is needed", "name", remedy)
    if len(name) > 100 or not name.isprintable():
        raise Refused("The name is too long, or has characters that can't be shown", "name", remedy)
    events = _check_choices(wanted.events, EVENTS[kind], "events", "event")
    if not events:
        raise Refused("A webhook needs at least one event", "events", f"choose from {', '.join(EVENTS[kind])}.")
    states = _check_choices(wanted.states, VERDICTS, "states", "state of a verdict")
    address = wanted.address.strip()
    if kind == SubscriberKind.EMAIL:
        _check_mail(address)
    else:
        try:
            resolve(address)
        except BadAddress as error:
            raise Refused(error.wrong, "address", error.remedy) from error
    return {"name": name, "address": address, "events": events, "states": states}


def _check_choices(given: Iterable[str], choices: Iterable[str], field: str, what: str) -> list[str]:
    allowed, chosen = [str(choice) for choice in choices], set(given)
    if unknown := sorted(chosen - set(allowed)):
        raise Refused(f"{unknown[0][:40]!r} is not a valid {what}", field, f"choose from {', '.join(allowed)}.")
    return [choice for choice in allowed if choice in chosen]


def _check_mail(address: str) -> None:
    if not settings.EMAIL_SET_UP:
        raise Refused("E-mail is not set up here", "kind", "an operator has to set HANDOFFAUDIT_EMAIL_URL.")
    try:
        validate_email(address)
    except ValidationError as error:
        raise Refused("This is not an e-mail address", "address", "write it as in team@example.com.") from error
