"""Poll as the script of an open page does, and decide as another person does."""

from typing import Any
from urllib.parse import parse_qsl

from django.test import Client

from handoffaudit.handoffs.models import Handoff
from tests.pages import attributes


def seen_by(page: Any) -> dict[str, str]:
    """Return what the script of the page sends with each poll."""
    pairs = (parse_qsl(one) for one in attributes(page, "[data-live-seen]", "data-live-seen"))
    return {name: value for some in pairs for name, value in some}


def polled(client: Client, address: str, page: Any) -> Any:
    """Ask as the script of an open page does."""
    rows = "~".join(attributes(page, "[data-live-row]", "data-live-row"))
    path, _, query = address.partition("?")
    return client.get(path, dict(parse_qsl(query)) | seen_by(page) | {"rows": rows}, headers={"X-Live": "1"})


def decline(client: Client, handoff: Handoff) -> None:
    sent = {"decision": "decline", "note": "no", "version": handoff.version}
    answer = client.post(f"/t/acme/handoffs/{handoff.pk}/decide/", sent)
    assert answer.status_code == 302, answer.text
