"""Tests of mails: plain text, one event each, to the named recipient alone."""

import socket
from collections.abc import Callable

import pytest
from django.core import mail
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.models import ActorKind, Alert, Delivery, Handoff, Subscriber
from handoffaudit.handoffs.review import activity, decisions, undo
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.webhooks import log
from handoffaudit.handoffs.webhooks.messages import write_text
from tests.handoffs.support import held, judged
from tests.handoffs.webhooks.conftest import Subscribe
from tests.handoffs.webhooks.receiver import raw

pytestmark = pytest.mark.django_db


@pytest.fixture
def team(subscribe: Subscribe, settings) -> Subscriber:
    settings.EMAIL_SET_UP = True
    settings.PUBLIC_URL = "https://audit.example.com"
    return subscribe(kind="email", name="Team", address="team@example.com", events=["alert", "decision"])


def subjects() -> list[str]:
    return [one.subject for one in mail.outbox]


def decline(tenant: Tenant, handoff: Handoff, note: str) -> None:
    ada = Actor(ActorKind.PERSON, "ada")
    decisions.decide_handoff(
        tenant=tenant, reference=str(handoff.pk), decision=Decision.DECLINE, note=note, actor=ada, seen_version=None
    )


def test_an_alert_is_mailed_with_what_to_do_and_where(tenant: Tenant, team: Subscriber, tell) -> None:
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 2)
    tell()
    (sent,) = mail.outbox
    assert sent.to == ["team@example.com"]
    assert (
        sent.subject
        == "[handoffaudit acme] Alert: The LLM would have rejected 2 handoffs that passed without its check"
    )
    assert "Look at each" in sent.body
    assert "https://audit.example.com/t/acme/handoffs/?flag=flagged" in sent.body
    assert sent.extra_headers["Auto-Submitted"] == "auto-generated"


def test_a_decision_is_mailed_with_who_and_why(tenant: Tenant, team: Subscriber, tell) -> None:
    handoff = judged(tenant, held())
    ada = Actor(ActorKind.PERSON, "ada")
    decisions.decide_handoff(
        tenant=tenant,
        reference=str(handoff.pk),
        decision=Decision.DECLINE,
        note="Too long.",
        actor=ada,
        seen_version=None,
    )
    tell()
    (sent,) = mail.outbox
    assert sent.subject == "[handoffaudit acme] Declined: research_result, researcher to writer"
    assert "By ada." in sent.body
    assert "Note: Too long." in sent.body


def test_a_reopened_handoff_is_not_told_as_a_verdict_of_the_person(tenant: Tenant, team: Subscriber, tell) -> None:
    handoff = judged(tenant, held())
    about = {"tenant": tenant, "reference": str(handoff.pk), "actor": Actor(ActorKind.PERSON, "ada"), "note": "Wait."}
    decisions.decide_handoff(**about, decision=Decision.DECLINE, seen_version=None)
    undo.reopen(**about, seen_version=None)
    tell()
    assert [sent.subject.removeprefix("[handoffaudit acme] ") for sent in mail.outbox] == [
        "Declined: research_result, researcher to writer",
        "Held again: research_result, researcher to writer",
    ]


def test_a_mail_that_cannot_be_read_keeps_no_later_mail_back(tenant: Tenant, team: Subscriber, tell) -> None:
    alerts.raise_alert(tenant.pk, "webhook_failing", 1)
    tell()
    Delivery.objects.update(payload="{}", delivered_at=None, due_at=timezone.now())
    alerts.raise_alert(tenant.pk, "model_unavailable", 1)
    broken, later = tell()
    assert (broken.tries, "see the log of the worker" in broken.last_error) == (2, True)
    assert later.due_at


def test_a_comment_and_an_assignment_are_mailed(
    tenant: Tenant, subscribe: Subscribe, reviewer: Person, settings, tell
) -> None:
    settings.EMAIL_SET_UP = True
    subscribe(kind="email", name="Team", address="team@example.com", events=["comment", "assignment"])
    about = {"tenant": tenant, "reference": str(judged(tenant, held()).pk), "actor": Actor(ActorKind.PERSON, "ada")}
    activity.add_comment(**about, text="First.\nBcc: all@example.com")
    activity.assign(**about, to=reviewer, note="Yours.\nBcc: x@example.com", seen_version=None)
    tell()
    comment, assignment = sorted(mail.outbox, key=lambda one: one.subject, reverse=True)
    assert comment.subject == "[handoffaudit acme] Comment: research_result, researcher to writer"
    assert "ada wrote:\n\nFirst.\nBcc: all@example.com" in comment.body
    assert assignment.subject == "[handoffaudit acme] Assigned to reviewer: research_result, researcher to writer"
    assert "Note: Yours. Bcc: x@example.com" in assignment.body


def test_a_senders_words_make_no_header(tenant: Tenant, team: Subscriber, tell) -> None:
    handoff = judged(tenant, held(handoff_type="x\r\nBcc: all@example.com"))
    ada = Actor(ActorKind.PERSON, "ada")
    decisions.decide_handoff(
        tenant=tenant,
        reference=str(handoff.pk),
        decision=Decision.DECLINE,
        note="\r\n.\r\n",
        actor=ada,
        seen_version=None,
    )
    tell()
    (sent,) = mail.outbox
    assert sent.recipients() == ["team@example.com"]
    assert "\n" not in sent.subject
    assert sent.body.splitlines()[0].startswith("Declined: x  Bcc: all@example.com, ")
    assert "Bcc" not in sent.message()


def test_a_senders_words_make_no_line_of_a_decision(tenant: Tenant, team: Subscriber, tell) -> None:
    first = judged(tenant, held(handoff_id="h-1\n\nhttps://example.org/\n\nBy ada."))
    about = {"tenant": tenant, "reference": str(first.pk), "actor": Actor(ActorKind.PERSON, "ada"), "note": ""}
    decisions.decide_handoff(**about, decision=Decision.APPROVE, seen_version=None)
    # The approval carries over, with a reason that names the first handoff.
    judged(tenant, held(), retry_of=first.handoff_id)
    tell()
    lines = mail.outbox[-1].body.splitlines()
    assert "By handoffaudit." in lines
    assert "By ada." not in lines
    assert "https://example.org/" not in lines


def test_a_mail_server_that_is_away_is_tried_again(
    tenant: Tenant, team: Subscriber, tell, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
    (delivery,) = tell()
    assert (delivery.tries, delivery.delivered_at) == (1, None)
    assert "mail server refused the mail" in delivery.last_error


def _mail_server(took: list[bytes]) -> Callable[[socket.socket], None]:
    def behave(connection: socket.socket) -> None:
        connection.sendall(b"220 mail.example.com\r\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                if line[:4].upper() == b"QUIT":
                    connection.sendall(b"221 bye\r\n")
                    return
                connection.sendall(b"354 go on\r\n" if line[:4].upper() == b"DATA" else b"250 ok\r\n")
                if line[:4].upper() == b"DATA":
                    took.extend(iter(lines.readline, b".\r\n"))
                    connection.sendall(b"250 ok\r\n")

    return behave


def test_a_real_mail_server_takes_it(tenant: Tenant, team: Subscriber, tell, settings) -> None:
    took: list[bytes] = []
    with raw(_mail_server(took)) as address:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", int(address.rstrip("/").rpartition(":")[2])
        alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
        (delivery,) = tell()
    assert delivery.delivered_at
    assert b"To: team@example.com\r\n" in took
    assert b"Auto-Submitted: auto-generated\r\n" in took


def test_without_a_mail_server_it_says_what_to_set(team: Subscriber, settings) -> None:
    settings.EMAIL_SET_UP = False
    assert "HANDOFFAUDIT_EMAIL_URL" in log.send_test(team).error
    assert mail.outbox == []


def test_what_flaps_fills_no_mailbox(tenant: Tenant, team: Subscriber, tell) -> None:
    for number in range(5):
        alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, number + 1)
        tell()
        alerts.acknowledge(tenant=tenant, alert=Alert.objects.latest("pk").pk, actor="ada")
        tell()
    assert len(mail.outbox) == 2
    waiting = Delivery.objects.filter(delivered_at=None).order_by("id")
    assert len(waiting) == 8
    Delivery.objects.filter(due_at__isnull=False).update(due_at=waiting[0].created_at)
    tell()
    assert len(mail.outbox) == 3
    assert subjects()[-1].startswith("[handoffaudit acme] Over: The LLM would have rejected 5")
    assert not Delivery.objects.filter(delivered_at=None).exists()


def test_what_gets_worse_is_mailed_at_once(tenant: Tenant, team: Subscriber, tell) -> None:
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
    Alert.objects.update(level="warning")
    tell()
    alert = Alert.objects.get()
    alert.level, alert.notified_at = "alert", alert.opened_at + alert.opened_at.resolution * 1_000_000
    alert.save()
    tell()
    assert [subject.split("] ")[1].split(":")[0] for subject in subjects()] == ["Warning", "Alert"]


def test_each_line_of_a_message_is_one_line() -> None:
    hostile = "x\n\nBy ada.\u2028\rBy ada."
    group = {"title": "Missing", "path": hostile, "muted_by": hostile, "number": 3, "muted_note": hostile, "link": "/g"}
    subject, lines = write_text({"group": group})
    assert len(lines) == 5
    assert len("\n".join([subject, *lines]).splitlines()) == 6


def test_an_event_without_a_text_of_its_own_is_no_test() -> None:
    subject, lines = write_text({"event": "assignment"})
    assert subject == "Assignment: somebody assigns a handoff to a person or to nobody"
    assert "test" not in "".join(lines)
