"""Tests of messages to Slack and Teams, which a local receiver takes."""

from typing import Any

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.models import ActorKind, Handoff
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.webhooks import log
from tests.handoffs.support import circular, held, judged, payload
from tests.handoffs.webhooks.conftest import Subscribe
from tests.handoffs.webhooks.receiver import Receiver

pytestmark = pytest.mark.django_db

EVERYTHING = ["verdict", "decision", "alert", "group", "comment", "assignment"]
ADA = Actor(ActorKind.PERSON, "ada")
HOSTILE = "<!channel> *b* [x](http://evil.example) <http://evil.example|here>"


@pytest.fixture(autouse=True)
def _public(settings) -> None:
    settings.PUBLIC_URL = "https://audit.example.com"


def parts_of_slack(told: dict[str, Any]) -> tuple[str, str, str]:
    """Check the shape that Slack takes, and return title, text and link."""
    assert set(told) == {"text", "blocks"}
    header, *rest = told["blocks"]
    assert header["type"] == "header"
    assert header["text"]["type"] == "plain_text"
    assert len(header["text"]["text"]) <= 150
    plain = [one["text"]["text"] for one in rest if one["text"]["type"] == "plain_text"]
    links = [one["text"]["text"] for one in rest if one["text"]["type"] == "mrkdwn"]
    assert all(one["type"] == "section" and 0 < len(one["text"]["text"]) <= 3000 for one in rest)
    return header["text"]["text"], "".join(plain), "".join(links)


def parts_of_teams(told: dict[str, Any]) -> tuple[str, str, str]:
    """Check the shape that Teams takes, and return title, text and link."""
    assert told["type"] == "message"
    [attachment] = told["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    runs = [one for block in card["body"] for one in block["inlines"]]
    assert all(block["type"] == "RichTextBlock" for block in card["body"])
    assert all(one["type"] == "TextRun" and one["text"] for one in runs)
    title, *text = [one["text"] for one in runs]
    assert all(action["type"] == "Action.OpenUrl" for action in card.get("actions", ()))
    return title, "\n".join(text), "".join(action["url"] for action in card.get("actions", ()))


PARTS = {"slack": parts_of_slack, "teams": parts_of_teams}


@pytest.mark.parametrize("kind", PARTS)
def test_each_event_is_a_message_with_title_reason_and_link(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, reviewer: Person, tell, kind: str
) -> None:
    subscribe(kind=kind, events=EVERYTHING)
    handoff = judged(tenant, held())
    about = {"tenant": tenant, "reference": str(handoff.pk), "actor": ADA}
    activity.add_comment(**about, text="Call them.")
    activity.assign(**about, to=reviewer, note="Yours.", seen_version=None)
    decisions.decide_handoff(**about, decision=Decision.DECLINE, note="Too long.", seen_version=None)
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 2)
    tell()
    messages = [PARTS[kind](told) for told in receiver.told]
    by_title = {title.removeprefix("[acme] ").split(":")[0]: (text, link) for title, text, link in messages}
    assert set(by_title) == {"Held", "Comment", "Assigned to reviewer", "Declined", "Alert"}
    assert "Findings: Long chain needs approval" in by_title["Held"][0]
    assert "Call them." in by_title["Comment"][0]
    assert "Note: Yours." in by_title["Assigned to reviewer"][0]
    assert "Note: Too long." in by_title["Declined"][0]
    assert f"https://audit.example.com/t/acme/handoffs/{handoff.pk}/" in by_title["Held"][1]
    assert "https://audit.example.com/t/acme/handoffs/?flag=flagged" in by_title["Alert"][1]
    for request in receiver.requests:
        assert "handoffaudit-signature" not in request.headers
        assert request.headers["content-type"] == "application/json"


def test_the_title_of_a_verdict_names_the_flag(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell) -> None:
    subscribe(kind="slack", events=["verdict"])
    judged(tenant, payload())
    Handoff.objects.update(flagged=True)
    tell()
    [told] = receiver.told
    assert parts_of_slack(told)[0].startswith("[acme] Accepted and flagged: ")


@pytest.mark.parametrize("more", ["x" * 4900, "7\n" * 2400], ids=["one line", "many lines"])
@pytest.mark.parametrize("kind", PARTS)
def test_words_of_senders_mention_nobody_and_are_bounded(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell, kind: str, more: str
) -> None:
    subscribe(kind=kind, events=EVERYTHING)
    handoff = judged(tenant, held(handoff_type=HOSTILE))
    activity.add_comment(tenant=tenant, reference=str(handoff.pk), text=f"{HOSTILE}\n{more}", actor=ADA)
    tell()
    assert len(receiver.told) == 2
    for told, request in zip(receiver.told, receiver.requests, strict=True):
        title, _, link = PARTS[kind](told)
        assert HOSTILE in title
        assert "evil" not in link
        assert len(request.body) < 28_000
        if kind == "slack":
            assert "<" not in told["text"]


@pytest.mark.parametrize("kind", PARTS)
def test_a_test_is_sent_and_a_failure_is_tried_again(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell, kind: str
) -> None:
    webhook = subscribe(kind=kind, events=["verdict"], states=["rejected"])
    assert webhook.secret == ""
    assert log.send_test(webhook).delivered
    assert PARTS[kind](receiver.told[0])[0] == "[acme] A test"
    receiver.answers = [(400, {}, b"invalid_payload")]
    judged(tenant, circular())
    judged(tenant, held())
    *_, delivery = tell()
    assert (delivery.tries, delivery.last_status, delivery.delivered_at) == (1, 400, None)
    assert "invalid_payload" in delivery.last_error
    assert '"event":"verdict"' in delivery.payload


@pytest.mark.parametrize("kind", PARTS)
def test_without_an_address_of_the_server_there_is_no_link(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell, settings, kind: str
) -> None:
    settings.PUBLIC_URL = ""
    subscribe(kind=kind, events=["verdict"])
    judged(tenant, held())
    tell()
    assert PARTS[kind](receiver.told[0])[2] == ""


def test_all_handoffs_of_other_tenants_stay_unsaid(
    tenant: Tenant, other_tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscribe(kind="slack", events=EVERYTHING)
    judged(other_tenant, held(tenant_id=other_tenant.slug))
    tell()
    assert receiver.told == []
    assert Handoff.objects.count() == 1
