"""Handoffs to show, and a parser of their pages."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from django.test import Client

import handoffaudit.celery  # noqa: F401 - the broker to wake is the one of the settings
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge as handoffs_judge
from handoffaudit.handoffs.ingest import store as ingest_store
from handoffaudit.handoffs.ingest.prepare import read_submission
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.submission import Submission

SENDER = Actor.key("tests")


def payload(**changes: Any) -> dict[str, Any]:
    return {
        "handoff_id": "h-1",
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "tenant_id": "acme",
        "call_chain": ["planner", "researcher"],
        "handoff_type": "research_result",
        "data": {"text": "Three of five suppliers answered."},
        **changes,
    }


def universal(**changes: Any) -> dict[str, Any]:
    return {
        "handoff": {
            "version": "3.0",
            "schema_type": "universal",
            "timestamp": "2026-02-01T08:00:00Z",
            "trace_id": "3f0e9f8e-6f2f-4a77-9f3a-0123456789ab",
            "source": {"skill": "writer", "workflow_id": "w", "session_path": "/s", "phase": "2"},
            "target": {"skill": "reviewer"},
            "context": {"summary": "A summary.", "problem_type": "decision"},
            "payload": {"working": {"text": "word " * 2500}},
            "meta": {"token_count": 1900, "confidence": "high"},
            **changes,
        }
    }


def store(tenant: Tenant, document: Any, *, judge: bool = True, **beside: Any) -> Handoff:
    """Submit a document in the way of the API and the workers, and return the handoff."""
    wrapped = json.dumps({"document": document, **beside}).encode()
    return _store(tenant, read_submission(wrapped, None), judge=judge)


def store_bytes(tenant: Tenant, document: bytes) -> Handoff:
    return _store(tenant, Submission(document=document, format="payload"), judge=True)


def _store(tenant: Tenant, submission: Submission, *, judge: bool) -> Handoff:
    receipt = ingest_store.accept(tenant, SENDER, submission)
    assert receipt.id, receipt
    if judge:
        handoffs_judge.drain()
    return Handoff.objects.get(pk=receipt.id)


def address(handoff: Handoff, rest: str = "") -> str:
    return f"/t/acme/handoffs/{handoff.pk}/{rest}"


class Page(HTMLParser):
    """A parsed page: the text of each element with an id, the tags and the attributes."""

    VOID = frozenset({"meta", "link", "input", "img", "br", "path", "rect"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.ids: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if (name := attributes.get("id")) is not None:
            assert name not in self.ids, f"the id {name} is there twice"
            self.ids[name] = ""
        if tag not in self.VOID:
            self._open.append((tag, name))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> ends nothing"
        opened, _ = self._open.pop()
        assert opened == tag, f"</{tag}> ends <{opened}>"

    def handle_data(self, data: str) -> None:
        for _, name in self._open:
            if name is not None:
                self.ids[name] += data

    def text(self, name: str) -> str:
        return re.sub(r"\s+", " ", self.ids[name]).strip()

    def links(self) -> list[str]:
        return [attributes.get("href") or "" for tag, attributes in self.tags if tag == "a"]

    def handlers(self) -> Iterator[str]:
        return (name for _, attributes in self.tags for name in attributes if name.startswith("on") or name == "style")


def opened(browser: Client, handoff: Handoff, rest: str = "") -> Page:
    response = browser.get(address(handoff, rest))
    assert response.status_code == 200
    return Page(response.content.decode())
