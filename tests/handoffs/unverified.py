"""Handoffs that were accepted while the LLM was unavailable."""

import re

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff, ModelBreaker
from tests.handoffs.support import checked, payload
from tests.messages_api.server import MessagesServer


def numbered(number: int, **changes: object) -> dict[str, object]:
    """Return a document with this number: documents must differ, because equal questions are asked once."""
    return payload(data={"summary": f"Number {number} delivers within a week."}, **changes)


def unverified(tenant: Tenant, model: MessagesServer, document: dict[str, object], **envelope: object) -> Handoff:
    """Submit a handoff while the LLM is unavailable, and end the outage."""
    model.outage = 529
    handoff = checked(tenant, document, **envelope)
    assert handoff.unverified
    model.outage = 0
    ModelBreaker.objects.all().delete()
    model.requests.clear()
    return handoff


def asked_about(model: MessagesServer) -> list[int]:
    """Return the numbers in the LLM's requests, in the order of the requests."""
    return [int(number) for request in model.requests for number in re.findall(r"Number (\d+)", request.content)]
