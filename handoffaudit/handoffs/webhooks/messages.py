"""The forms of a delivery: signed requests, plain-text mails, and messages for Slack and Microsoft Teams.

Each delivery is about one event.

In each hour (`INTERVAL`), a person gets at most one mail about alerts of the same kind and level, and one about ended
alerts of the same kind.
Slack takes `text` and `blocks` (incoming webhooks), Teams takes a message with an Adaptive Card (Workflows). Words of
senders are always plain text, so that they mention nobody and link nowhere.
"""

import smtplib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import orjson
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import timezone

from handoffaudit.handoffs.models import Delivery, SubscriberKind
from handoffaudit.handoffs.transitions import REVIEWABLE
from handoffaudit.handoffs.webhooks.client import SIGNATURE_HEADER, Answer, Sender, sign
from handoffaudit.handoffs.webhooks.subscriptions import EVENT_TEXTS, EventType
from handoffaudit.validation.layers import entry_of
from handoffaudit.validation.text import clean

LONGEST_SUBJECT = 150

NOT_SET_UP = "E-mail is not set up here: an operator has to set HANDOFFAUDIT_EMAIL_URL."

_HEADERS: Final = {"Content-Type": "application/json", "User-Agent": "handoffaudit"}


def send(sender: Sender, delivery: Delivery) -> Answer:
    """Send a delivery in the form of its receiver. A failure is part of the answer and raises no error."""
    kind = delivery.subscriber.kind
    if kind == SubscriberKind.EMAIL:
        return send_mail(delivery)
    return _post_message(sender, delivery) if kind in KINDS else _post(sender, delivery)


def _post(sender: Sender, delivery: Delivery) -> Answer:
    """Send one request with a new signature, and remove the secret and the signature from the answer."""
    subscriber, body = delivery.subscriber, delivery.payload.encode()
    headers = {
        **_HEADERS,
        "Handoffaudit-Event": delivery.event,
        "Handoffaudit-Delivery": str(delivery.pk),
        SIGNATURE_HEADER: sign(subscriber.secret, body, int(time.time())),
    }
    answer = sender.post(subscriber.address, body, headers)
    # Some receivers echo the request.
    text = answer.text.replace(subscriber.secret, "…").replace(headers[SIGNATURE_HEADER], "…")
    return replace(answer, text=text)


def _post_message(sender: Sender, delivery: Delivery) -> Answer:
    """Send one message to a chat. The address is the secret, so the request has no signature."""
    subscriber = delivery.subscriber
    return sender.post(subscriber.address, make_body(subscriber.kind, delivery.payload), _HEADERS)


def send_mail(delivery: Delivery) -> Answer:
    """Send a delivery by e-mail. A failure of the mail server is part of the answer and raises no error."""
    began = time.monotonic()
    if not settings.EMAIL_SET_UP:
        return Answer(None, 0, error=NOT_SET_UP)
    try:
        make_mail(delivery).send()
    except (smtplib.SMTPException, OSError, ValueError) as error:
        why = clean(str(error) or type(error).__name__, 200)
        return Answer(
            None, _ms(began), error=f"The mail server refused the mail ({why}): check HANDOFFAUDIT_EMAIL_URL."
        )
    return Answer(None, _ms(began))


def make_mail(delivery: Delivery) -> EmailMessage:
    payload: dict[str, Any] = orjson.loads(delivery.payload)
    subject, lines = write_text(payload)
    return EmailMessage(
        subject=clean(f"[handoffaudit {payload['tenant']}] {subject}", LONGEST_SUBJECT),
        body="\n".join([*lines, "", f"Tenant {payload['tenant']}, {payload['at']}."]) + "\n",
        to=[delivery.subscriber.address],
        # Out-of-office replies must not answer these mails.
        headers={"Auto-Submitted": "auto-generated", "Handoffaudit-Delivery": str(delivery.pk)},
    )


def write_text(payload: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the subject and the lines of the body, each as one line. Messages to chats have the same words."""
    subject, lines = _write(payload)
    return _printable(subject), [_printable(line) for line in lines]


def _write(payload: dict[str, Any]) -> tuple[str, list[str]]:
    if alert := payload.get("alert"):
        over = alert["change"] == "closed"
        subject = f"Over: {alert['text']}" if over else f"{alert['level'].capitalize()}: {alert['text']}"
        since = f"Since {alert['opened_at']}."
        return subject, [f"{alert['text']}.", since, *([] if over else ["", alert["meaning"]]), "", alert["link"]]
    if group := payload.get("group"):
        subject = f"Came back: {group['title']}" + (f" at {group['path']}" if group["path"] else "")
        grown = f"{group['muted_by']} muted this finding group, and {group['number']:,} handoffs have the finding now."
        return subject, [f"{subject}.", grown, f"Note: {group['muted_note']}", "", group["link"]]
    if report := payload.get("report"):
        return f"Compliance in the week of {report['week']}", _write_report(report)
    if handoff := payload.get("handoff"):
        return _write_handoff(payload, handoff)
    if (event := payload.get("event")) in EVENT_TEXTS:
        subject = f"{event.capitalize()}: {EVENT_TEXTS[EventType(event)].meaning}"
        return subject, [f"{subject}."]
    return "A test", ["This is a test of the messages about alerts, decisions and findings. No event caused it."]


def _write_handoff(payload: dict[str, Any], handoff: dict[str, Any]) -> tuple[str, list[str]]:
    pair = f"{handoff['source_agent_id']} to {handoff['target_agent_id']}"
    if comment := payload.get("comment"):
        subject = f"Comment: {handoff['handoff_type']}, {pair}"
        said = comment["text"].split("\n")
        return subject, [f"{payload['actor']['name']} wrote:", "", *said, "", handoff["link"]]
    if assignment := payload.get("assignment"):
        to = assignment["to"] or "nobody"
        subject = f"Assigned to {to}: {handoff['handoff_type']}, {pair}"
        why = [f"Note: {assignment['note']}"] if assignment["note"] else []
        return subject, [f"{subject}.", f"By {payload['actor']['name']}.", *why, "", handoff["link"]]
    # A decision event after which the handoff waits again is a reopening: the person neither held nor rejected it.
    again = " again" if payload.get("event") == EventType.DECISION and handoff["state"] in REVIEWABLE else ""
    flag = " and flagged" if payload.get("event") == EventType.VERDICT and handoff["flagged"] else ""
    subject = f"{handoff['state'].capitalize()}{again}{flag}: {handoff['handoff_type']}, {pair}"
    by = payload.get("actor", {}).get("name", "")
    note = [f"Note: {payload['note']}"] if payload.get("note") else []
    return subject, [f"{subject}.", f"By {by}." if by else "", *note, "", handoff["link"]]


_RATES = {"acceptance_rate": "Acceptance rate", "file_compliance": "File compliance"}


def _write_report(report: dict[str, Any]) -> list[str]:
    lines = [f"{name}: {_write_rate(report[rate])}." for rate, name in _RATES.items()]
    for rate, name in _RATES.items():
        agents = report[rate]["agents"]
        lines += ["", f"{name} by agent:"] if agents else []
        lines += [f"  {one['agent'] or '(no name)'}: {_write_rate(one)}" for one in agents]
    return [*lines, "", report["link"]]


def _write_rate(rate: dict[str, Any]) -> str:
    if rate["percent"] is None:
        return "nothing to count"
    before = rate["percent_before"]
    compared = f", {before:.1f} % the week before" if before is not None else ""
    return f"{rate['percent']:.1f} % of {rate['total']:,}{compared}"


def _printable(text: str) -> str:
    """Return the text as one line.

    The text contains words of the sender of a handoff. A line break in these words could start another mail header, or
    fake a line of the mail.
    """
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _ms(began: float) -> float:
    return (time.monotonic() - began) * 1000


INTERVAL = timedelta(hours=1)

MOST_BUNDLED = 500

STANDS_FOR = "A later mail about the same kind of alert replaced this mail."


def postpone(rows: Iterable[Delivery]) -> None:
    """Set the due time of new alert mails, and store nothing.

    A mail about an alert waits for `INTERVAL` if the last interval had a mail about the same kind and level of alert. A
    mail about the end of an alert waits if the last interval had a mail about the end of an alert of the same kind.
    """
    now = timezone.now()
    lately: dict[int, set[str]] = {}
    for row in rows:
        if not _is_bundled(row):
            continue
        if row.subscriber_id not in lately:
            recent = Delivery.objects.filter(
                tenant=row.tenant_id, subscriber=row.subscriber_id, event=EventType.ALERT, created_at__gt=now - INTERVAL
            )
            lately[row.subscriber_id] = {_read_subject(one) for one in recent.order_by("-id")[:MOST_BUNDLED]}
        subject = _read_subject(row)
        if subject in lately[row.subscriber_id]:
            row.due_at = now + INTERVAL
        lately[row.subscriber_id].add(subject)


def find_latest(row: Delivery) -> Delivery:
    """Return the last waiting mail about the same kind of alert, which is sent in place of this mail.

    If no later mail waits, return `row` itself.
    """
    if not _is_bundled(row):
        return row
    waiting = Delivery.objects.filter(
        tenant=row.tenant_id, subscriber=row.subscriber_id, event=EventType.ALERT, id__gt=row.pk, due_at__isnull=False
    )
    same = [one for one in waiting.order_by("-id")[:MOST_BUNDLED] if _read_kind(one) == _read_kind(row)]
    return same[0] if same else row


def _is_bundled(row: Delivery) -> bool:
    return row.event == EventType.ALERT and row.subscriber.kind == SubscriberKind.EMAIL


def _read_kind(row: Delivery) -> str:
    return str(_read_alert(row).get("kind"))


def _read_subject(row: Delivery) -> str:
    """Return a text that is equal for mails about the same kind and level of alert, or the end of the same kind."""
    alert = _read_alert(row)
    return f"{alert.get('kind')}:{alert.get('level') if alert.get('change') != 'closed' else ''}"


def _read_alert(row: Delivery) -> dict[str, Any]:
    """Return the alert of a delivery, empty if the payload cannot be read.

    Such a delivery fails when it is sent. It must not keep other deliveries back before.
    """
    try:
        return dict(orjson.loads(row.payload)["alert"])
    except (KeyError, TypeError, ValueError):
        return {}


KINDS = (SubscriberKind.SLACK, SubscriberKind.TEAMS)

# Slack refuses a header of more than 150 and a text of more than 3,000 characters; Teams a message above 28 KB.
LONGEST_TITLE = 150
LONGEST_TEXT = 2500

# In a message to Teams, each line takes about 70 bytes more than its text.
_MOST_LINES = 100

_MOST_REASONS = 5

_ITEMS = ("handoff", "alert", "group", "report")

_LINK_TITLE = "Open in handoffaudit"


@dataclass(frozen=True, slots=True)
class Message:
    """The content of a message; `link` is empty for a test, and where the server does not know its own address."""

    title: str
    text: str
    link: str


def make_body(kind: str, payload: str) -> bytes:
    """Return the request body for a stored payload. `kind` is one of `KINDS`."""
    message = make_chat_message(orjson.loads(payload))
    return orjson.dumps(_slack(message) if kind == SubscriberKind.SLACK else _teams(message))


def make_chat_message(payload: dict[str, Any]) -> Message:
    subject, lines = write_text(payload)
    item: dict[str, Any] = next((payload[name] for name in _ITEMS if name in payload), {})
    link = str(item.get("link", ""))
    said = [line for line in lines if line not in ("", link, f"{subject}.")]
    if codes := item.get("codes"):
        said.append(f"Findings: {_name_codes(codes)}")
    title = clean(f"[{payload['tenant']}] {subject}", LONGEST_TITLE)
    return Message(title, clean("\n".join(said), LONGEST_TEXT), link if "://" in link else "")


def _name_codes(codes: list[str]) -> str:
    names = [entry_of(code).title for code in codes[:_MOST_REASONS]]
    more = f" and {len(codes) - _MOST_REASONS} more" if len(codes) > _MOST_REASONS else ""
    return "; ".join(names) + more


def _slack(message: Message) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(message.title)}]
    if message.text:
        blocks.append({"type": "section", "text": _plain(message.text)})
    if message.link:
        link = f"<{quote(message.link, safe=':/?&=%#~')}|{_LINK_TITLE}>".replace("&", "&amp;")
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": link}})
    # Slack shows `text` in notifications, gives it to screen readers, and interprets mentions in it.
    return {"text": _escape(message.title), "blocks": blocks}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(message: Message) -> dict[str, Any]:
    # A `TextBlock` would read Markdown in the words of senders; a `TextRun` is plain.
    runs: list[dict[str, str]] = [{"text": message.title, "weight": "Bolder", "size": "Medium"}]
    lines = [line for line in message.text.split("\n") if line]
    runs += [{"text": line} for line in [*lines[:_MOST_LINES], *(["…"] if len(lines) > _MOST_LINES else [])]]
    body = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", **run}]} for run in runs]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if message.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": _LINK_TITLE, "url": message.link}]
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [content]}
