"""Messages for Slack and Microsoft Teams about one event each: title, reason and a link to the item.

Slack takes `text` and `blocks` (incoming webhooks), Teams takes a message with an Adaptive Card (Workflows). Words of
senders are always plain text, so that they mention nobody and link nowhere.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from handoffaudit.handoffs.models import SubscriberKind
from handoffaudit.handoffs.webhooks import mail
from handoffaudit.validation.catalogue import entry_of
from handoffaudit.validation.text import clean

KINDS = (SubscriberKind.SLACK, SubscriberKind.TEAMS)

# Slack refuses a header of more than 150 and a text of more than 3,000 characters; Teams a message above 28 KB.
LONGEST_TITLE = 150
LONGEST_TEXT = 2500

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
    message = make_message(orjson.loads(payload))
    return orjson.dumps(_slack(message) if kind == SubscriberKind.SLACK else _teams(message))


def make_message(payload: dict[str, Any]) -> Message:
    subject, lines = mail.write_text(payload)
    item: dict[str, Any] = next((payload[name] for name in _ITEMS if name in payload), {})
    link = str(item.get("link", ""))
    said = [line for line in lines if line not in ("", link, f"{subject}.")]
    if codes := item.get("codes"):
        said.append(f"Findings: {_name_codes(codes)}")
    title = clean(_flatten(f"[{payload['tenant']}] {subject}"), LONGEST_TITLE)
    return Message(title, clean("\n".join(map(_flatten, said)), LONGEST_TEXT), link if "://" in link else "")


def _name_codes(codes: list[str]) -> str:
    names = [entry_of(code).title for code in codes[:_MOST_REASONS]]
    more = f" and {len(codes) - _MOST_REASONS} more" if len(codes) > _MOST_REASONS else ""
    return "; ".join(names) + more


def _flatten(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _slack(message: Message) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(message.title)}]
    if message.text:
        blocks.append({"type": "section", "text": _plain(message.text)})
    if message.link:
        link = f"<{quote(message.link, safe=':/?&=%#~')}|{_LINK_TITLE}>".replace("&", "&amp;")
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": link}})
    # Slack reads the text aloud and shows it in notifications, and reads mentions in it.
    return {"text": _escape(message.title), "blocks": blocks}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(message: Message) -> dict[str, Any]:
    # A `TextBlock` would read Markdown in the words of senders; a `TextRun` is plain.
    runs: list[dict[str, str]] = [{"text": message.title, "weight": "Bolder", "size": "Medium"}]
    runs += [{"text": line} for line in message.text.split("\n") if line]
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
