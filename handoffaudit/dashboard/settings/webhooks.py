"""The pages of webhooks and e-mail receivers: their events, their deliveries, and a test delivery."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.settings import accounts
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.models import Delivery, Subscriber, SubscriberKind
from handoffaudit.handoffs.webhooks import log, subscriptions
from handoffaudit.handoffs.webhooks.client import Answer, Busy
from handoffaudit.handoffs.webhooks.subscriptions import EVENT_TEXTS, EVENTS, VERDICTS, EventType, SubscriptionValues

_KINDS = {
    SubscriberKind.WEBHOOK: ("web address", "signed requests, checked with a secret"),
    SubscriberKind.SLACK: ("Slack", "messages to a channel; needs the address of an incoming webhook of Slack"),
    SubscriberKind.TEAMS: ("Microsoft Teams", "cards in a channel; needs the address of a workflow of Teams"),
    SubscriberKind.EMAIL: ("e-mail", "plain mails about all events except verdicts"),
}


@dataclass(slots=True)
class Form:
    """The form of a receiver; `errors` holds messages by field."""

    kind: str = SubscriberKind.WEBHOOK.value
    name: str = ""
    address: str = ""
    events: list[str] = field(default_factory=lambda: [EventType.DECISION.value, EventType.ALERT.value])
    states: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    # Whether an existing receiver is an e-mail address. Its kind cannot change, so only events for e-mail are offered.
    is_mail: bool = False

    @classmethod
    def of(cls, subscriber: Subscriber) -> "Form":
        made = cls(subscriber.kind, subscriber.name, subscriber.address, subscriber.events, subscriber.states)
        made.is_mail = subscriber.kind == SubscriberKind.EMAIL
        return made

    @classmethod
    def from_request(cls, request: HttpRequest) -> "Form":
        given = request.POST
        return cls(
            given.get("kind", "").strip(),
            given.get("name", "").strip(),
            given.get("address", "").strip(),
            given.getlist("events"),
            given.getlist("states"),
        )

    @property
    def wanted(self) -> SubscriptionValues:
        return SubscriptionValues(self.name, self.address, self.events, self.states)

    @property
    def event_choices(self) -> list[tuple[str, str, bool]]:
        offered = EVENTS[SubscriberKind.EMAIL] if self.is_mail else tuple(EventType)
        return [(event.value, EVENT_TEXTS[event].meaning, event.value in self.events) for event in offered]

    @property
    def kind_choices(self) -> list[tuple[str, str, str, bool]]:
        """Return the kinds with their label, what they mean, and whether the form has chosen them."""
        kind = self.kind if self.kind in _KINDS else SubscriberKind.WEBHOOK
        return [(name.value, label, means, name == kind) for name, (label, means) in _KINDS.items()]

    @property
    def state_choices(self) -> list[tuple[str, bool]]:
        return [(state.value, state.value in self.states) for state in VERDICTS]


@require_role(Role.ADMIN)
@require_safe
def webhooks(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return _list(request, who, Form())


@require_role(Role.ADMIN)
@require_POST
def create(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    form = Form.from_request(request)
    try:
        made = subscriptions.create(tenant=who.tenant, kind=form.kind, wanted=form.wanted, actor=who.person.username)
    except Refused as refused:
        form.errors[refused.field] = refused.message
        return _list(request, who, form, status=400)
    if made.secret:
        return _show_secret(request, who, made)
    messages.success(request, f"{made.name} receives events from now on. Send a test to check the connection.")
    return _back(who, made)


@require_role(Role.ADMIN)
@require_safe
def webhook(request: HttpRequest, who: TenantMembership, subscriber: int) -> HttpResponse:
    about, secret = accounts.take_secret(request, who, "webhook")
    return _one(request, who, _subscriber(who, subscriber), secret=secret if about == str(subscriber) else "")


@require_role(Role.ADMIN)
@require_POST
def change(request: HttpRequest, who: TenantMembership, subscriber: int) -> HttpResponse:
    found, form = _subscriber(who, subscriber), Form.from_request(request)
    form.kind, form.is_mail = found.kind, found.kind == SubscriberKind.EMAIL
    try:
        subscriptions.change(tenant=who.tenant, pk=found.pk, wanted=form.wanted, actor=who.person.username)
    except Refused as refused:
        form.errors[refused.field] = refused.message
        return _one(request, who, found, form=form, status=400)
    messages.success(request, "Saved.")
    return _back(who, found)


@require_role(Role.ADMIN)
@require_POST
def switch(request: HttpRequest, who: TenantMembership, subscriber: int) -> HttpResponse:
    found, on = _subscriber(who, subscriber), request.POST.get("on") == "1"
    subscriptions.switch(tenant=who.tenant, pk=found.pk, on=on, actor=who.person.username)
    said = "is switched on: it receives waiting and later events" if on else "is paused: it receives no events"
    messages.success(request, f"{found.name} {said}.")
    return _back(who, found)


@require_role(Role.ADMIN)
@require_POST
def rotate(request: HttpRequest, who: TenantMembership, subscriber: int) -> HttpResponse:
    found = _subscriber(who, subscriber)
    if found.kind != SubscriberKind.WEBHOOK:
        raise Http404("Only requests to web addresses are signed.")
    changed = subscriptions.rotate(tenant=who.tenant, pk=found.pk, actor=who.person.username)
    return _show_secret(request, who, changed)


@require_role(Role.ADMIN)
@require_POST
def delete(request: HttpRequest, who: TenantMembership, subscriber: int) -> HttpResponse:
    found = _subscriber(who, subscriber)
    subscriptions.delete(tenant=who.tenant, pk=found.pk, actor=who.person.username)
    messages.success(request, f"{found.name} is deleted, with its log.")
    return redirect("dashboard:settings_webhooks", tenant=who.tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def test(request: HttpRequest, who: TenantMembership, subscriber: int) -> HttpResponse:
    """Send a test event now; the test can take as long as the timeout of a delivery."""
    found = _subscriber(who, subscriber)
    try:
        tested = log.send_test(found)
    except Busy as busy:
        messages.error(request, f"Not sent: {busy.message}")
        return _back(who, found)
    return _one(request, who, found, tested=tested)


@require_role(Role.ADMIN)
@require_safe
def delivery(request: HttpRequest, who: TenantMembership, subscriber: int, delivery: UUID) -> HttpResponse:
    found = _subscriber(who, subscriber)
    one = _delivery(found, delivery)
    payload = orjson.dumps(orjson.loads(one.payload), option=orjson.OPT_INDENT_2).decode()
    context = {"tab": "settings_webhooks", "subscriber": found, "delivery": one, "payload": payload}
    return render(request, "dashboard/settings/delivery.html", context)


@require_role(Role.ADMIN)
@require_POST
def again(request: HttpRequest, who: TenantMembership, subscriber: int, delivery: UUID) -> HttpResponse:
    found = _subscriber(who, subscriber)
    one = _delivery(found, delivery)
    try:
        log.send_again(tenant=who.tenant, subscriber=found.pk, pk=one.pk, actor=who.person.username)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, "The delivery is sent again in a moment, under the same id.")
    return _back(who, found)


def _list(request: HttpRequest, who: TenantMembership, form: Form, *, status: int = 200) -> HttpResponse:
    subscribers = subscriptions.list_subscribers(who.tenant)
    health = log.load_health(who.tenant, subscribers)
    context = {
        "tab": "settings_webhooks",
        "rows": [(one, health[one.pk]) for one in subscribers],
        "form": form,
        "no_mail": not settings.EMAIL_SET_UP,
        "public_url": settings.PUBLIC_URL,
    }
    return render(request, "dashboard/settings/webhooks.html", context, status=status)


def _one(
    request: HttpRequest,
    who: TenantMembership,
    subscriber: Subscriber,
    *,
    form: Form | None = None,
    secret: str = "",
    tested: Answer | None = None,
    status: int = 200,
) -> HttpResponse:
    bad, cursor, state = None, request.GET.get("cursor", ""), request.GET.get("state", "")
    try:
        page = _deliveries(subscriber, state, cursor)
    except FilterError as error:
        bad, page, status, state = error, log.list_deliveries(subscriber), 400, ""
    all_of_it = reverse("dashboard:settings_webhook", args=[who.tenant.slug, subscriber.pk])
    address = f"{all_of_it}?state={state}" if state else all_of_it
    context: dict[str, Any] = {
        "tab": "settings_webhooks",
        "subscriber": subscriber,
        "health": log.load_health(who.tenant, [subscriber])[subscriber.pk],
        "form": form or Form.of(subscriber),
        "secret": secret,
        "tested": tested,
        "bad": bad,
        "deliveries": page.items,
        "only_failed": bool(state),
        "all_of_it": all_of_it,
        "newest": address if cursor else "",
        "next": f"{address}{'&' if state else '?'}cursor={page.next}" if page.next else "",
    }
    return render(request, "dashboard/settings/webhook.html", context, status=status)


def _deliveries(subscriber: Subscriber, state: str, cursor: str) -> log.Deliveries:
    """Return the deliveries that the address asks for; raise `FilterError` for a bad state or cursor."""
    if state not in ("", "failed"):
        raise FilterError("state", state[:40], "write state=failed, or leave state out.")
    return log.list_deliveries(subscriber, failed=bool(state), cursor=cursor)


def _show_secret(request: HttpRequest, who: TenantMembership, subscriber: Subscriber) -> HttpResponse:
    address = reverse("dashboard:settings_webhook", args=[who.tenant.slug, subscriber.pk])
    return accounts.redirect_with_secret(address, request, who, "webhook", subscriber.secret, str(subscriber.pk))


def _back(who: TenantMembership, subscriber: Subscriber) -> HttpResponse:
    return redirect("dashboard:settings_webhook", tenant=who.tenant.slug, subscriber=subscriber.pk)


def _subscriber(who: TenantMembership, pk: int) -> Subscriber:
    try:
        return subscriptions.get(who.tenant, pk)
    except Subscriber.DoesNotExist as error:
        raise Http404("There is no such webhook in this tenant.") from error


def _delivery(subscriber: Subscriber, pk: UUID) -> Delivery:
    try:
        return log.get(subscriber, pk)
    except Delivery.DoesNotExist as error:
        raise Http404("There is no such delivery.") from error


urlpatterns = [
    path("settings/webhooks/", webhooks, name="settings_webhooks"),
    path("settings/webhooks/create/", create, name="settings_webhook_create"),
    path("settings/webhooks/<int:subscriber>/", webhook, name="settings_webhook"),
    path("settings/webhooks/<int:subscriber>/change/", change, name="settings_webhook_change"),
    path("settings/webhooks/<int:subscriber>/switch/", switch, name="settings_webhook_switch"),
    path("settings/webhooks/<int:subscriber>/rotate/", rotate, name="settings_webhook_rotate"),
    path("settings/webhooks/<int:subscriber>/delete/", delete, name="settings_webhook_delete"),
    path("settings/webhooks/<int:subscriber>/test/", test, name="settings_webhook_test"),
    path("settings/webhooks/<int:subscriber>/deliveries/<uuid:delivery>/", delivery, name="settings_delivery"),
    path("settings/webhooks/<int:subscriber>/deliveries/<uuid:delivery>/again/", again, name="settings_delivery_again"),
]
