"""Handoffs that passed while the model was away."""

import re

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff, ModelBreaker
from tests.handoffs.support import checked, payload
from tests.messages_api.server import MessagesServer


def numbered(number: int, **changes: object) -> dict[str, object]:
    """Different ones: equal questions are asked once."""
    return payload(data={"summary": f"Number {number} delivers within a week."}, **changes)


def unverified(tenant: Tenant, model: MessagesServer, document: dict[str, object], **envelope: object) -> Handoff:
    """One that came while the model was away; now it answers again."""
    model.outage = 529
    handoff = checked(tenant, document, **envelope)
    assert handoff.unverified
    model.outage = 0
    ModelBreaker.objects.all().delete()
    model.requests.clear()
    return handoff


def asked_about(model: MessagesServer) -> list[int]:
    """The numbers, in the order they were asked about."""
    return [int(number) for request in model.requests for number in re.findall(r"Number (\d+)", request.content)]
