"""API of webhooks and e-mail subscriptions: list, create, test and delete."""

from typing import Annotated

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Path, Router, Schema
from pydantic import ConfigDict, Field

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import errors, examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.serializers import Answer, Extended, Moment, Nullable, ProblemOut, answer
from handoffaudit.handoffs.models import Subscriber, SubscriberKind
from handoffaudit.handoffs.webhooks import log, subscriptions
from handoffaudit.handoffs.webhooks.client import Busy
from handoffaudit.handoffs.webhooks.subscriptions import EVENTS, VERDICTS, SubscriptionValues

router = Router(tags=["Webhooks"])
ADMIN = KeyWith(Scope.ADMIN)

WebhookId = Annotated[int, Path(description="The webhook's `id`.", ge=1, le=10**12 - 1, examples=[3])]
_BY_WEBHOOK = ", ".join(EVENTS[SubscriberKind.WEBHOOK])
_BY_MAIL = ", ".join(sorted(EVENTS[SubscriberKind.EMAIL]))


HOOK = {
    "name": "CI",
    "address": "https://example.com/handoffs",
    "events": ["verdict", "decision"],
    "states": ["held"],
}


class WebhookIn(Schema):
    model_config = ConfigDict(extra="forbid")

    kind: str = Field("webhook", description=", ".join(SubscriberKind.values))
    name: str = Field(description="The name of the webhook.", examples=["CI"])
    address: str = Field(
        description="A web address or an e-mail address. For slack: the address of an incoming webhook. For teams: the "
        "address of a workflow. Private addresses are refused, except those that the operator allows.",
        examples=["https://ci.example.com/handoffs"],
    )
    events: list[str] = Field(
        description=f"Any of {_BY_WEBHOOK}; for e-mail: {_BY_MAIL}.", examples=[["verdict", "decision"]]
    )
    states: list[str] = Field(
        default_factory=list,
        description=f"Verdicts to send: any of {', '.join(VERDICTS)}; empty: all.",
        examples=[["held"]],
    )


class DeliveriesOut(Answer):
    delivered_at: Moment | None = Field(description="When the last delivery succeeded; null if none did.")
    failed: int = Field(
        description="Failed deliveries of the last 24 hours, including those to be retried; counted up to 1,000."
    )
    waiting: int = Field(description="Deliveries to be sent or retried; counted up to 1,000.")


class WebhookOut(Answer):
    id: int = Field(description="The webhook's id.")
    kind: str = Field(description=f"{', '.join(SubscriberKind.values)}.")
    name: str = Field(description="The name of the webhook.")
    address: str = Field(description="The web address or e-mail address.")
    events: list[str] = Field(description="The events to send.")
    states: list[str] = Field(description="The verdicts to send; empty: all.")
    active: bool = Field(description="Whether the webhook is active; a paused webhook gets no events.")
    created_at: Moment = Field(description="When the webhook was created.")
    created_by: str = Field(description="Who created the webhook.")
    deliveries: DeliveriesOut = Field(description="Delivery statistics.")


class NewWebhookOut(WebhookOut):
    secret: Nullable = Field(description="The secret that signs requests. Shown only once; null for chats and e-mail.")


class WebhooksOut(Answer):
    items: list[WebhookOut] = Field(description="All webhooks of the tenant.")
    next: str | None = Field(description="Always null: the list has one page.")


class TestedOut(Answer):
    delivered: bool = Field(description="Whether the receiver accepted the delivery.")
    status: int | None = Field(description="The HTTP status of the receiver; null without an answer.")
    ms: float = Field(description="Response time in milliseconds.")
    error: Nullable = Field(description="Why the delivery failed, and what to do; null if it succeeded.")


@router.get(
    "/webhooks",
    auth=ADMIN,
    operation_id="list_webhooks",
    summary="List webhooks and their deliveries",
    response={200: WebhooksOut},
)
def list_all(request: HttpRequest) -> HttpResponse:
    tenant = caller(request).tenant
    items = [_with_deliveries(tenant, one) for one in subscriptions.list_subscribers(tenant)]
    return answer(WebhooksOut, {"items": items, "next": None})


@router.post(
    "/webhooks",
    auth=ADMIN,
    operation_id="create_webhook",
    summary="Create a webhook; the answer shows its secret once",
    response={201: NewWebhookOut, 422: ProblemOut},
    openapi_extra=examples.body_example("Held verdicts and decisions", HOOK),
)
def create(request: HttpRequest, asked: WebhookIn) -> HttpResponse:
    who = caller(request)
    wanted = SubscriptionValues(asked.name, asked.address, asked.events, asked.states)
    try:
        made = subscriptions.create(tenant=who.tenant, kind=asked.kind, wanted=wanted, actor=who.named)
    except Busy as busy:
        raise _busy(busy) from None
    except Refused as refused:
        members = errors.change_members(request, refused)
        raise Problem(422, "The webhook can't be made", refused.message, **members) from None
    return answer(NewWebhookOut, _with_deliveries(who.tenant, made), 201)


@router.delete(
    "/webhooks/{webhook}",
    auth=ADMIN,
    operation_id="delete_webhook",
    summary="Delete a webhook and its log",
    response={204: None, 404: ProblemOut},
)
def delete(request: HttpRequest, webhook: WebhookId) -> HttpResponse:
    who = caller(request)
    subscriptions.delete(tenant=who.tenant, pk=_get_webhook(who.tenant, webhook).pk, actor=who.named)
    return HttpResponse(status=204)


@router.post(
    "/webhooks/{webhook}/test",
    auth=ADMIN,
    operation_id="test_webhook",
    summary="Send a test event and return the result",
    response={200: TestedOut, 404: ProblemOut},
)
def test(request: HttpRequest, webhook: WebhookId) -> HttpResponse:
    """Send a test event now, and return what the receiver answered.

    The call returns when the receiver has answered or its time is up. The log of deliveries lists the test like any
    delivery.
    """
    found = _get_webhook(caller(request).tenant, webhook)
    try:
        return answer(TestedOut, log.send_test(found))
    except Busy as busy:
        raise _busy(busy) from None


def _busy(busy: Busy) -> Problem:
    return Problem(503, "Busy with webhooks", busy.message, headers={"Retry-After": "10"})


def _get_webhook(tenant: Tenant, pk: int) -> Subscriber:
    try:
        return subscriptions.get(tenant, pk)
    except Subscriber.DoesNotExist:
        raise Http404(f"There is no webhook {pk}.") from None


def _with_deliveries(tenant: Tenant, one: Subscriber) -> Extended:
    return Extended(one, deliveries=log.load_health(tenant, [one])[one.pk])
