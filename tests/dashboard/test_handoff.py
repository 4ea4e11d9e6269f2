"""The page of one handoff: what is wrong, where, and what would make it pass; hostile and large documents on it."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

import handoffaudit.celery  # noqa: F401 - the broker to wake is the one of the settings
from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import ingest, judging
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.submission import Submission, read_submission

SENDER = Actor.key("tests")
MOST_SENT = 150_000


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
    """A submission on the way that the API and the workers take it."""
    wrapped = json.dumps({"document": document, **beside}).encode()
    return _store(tenant, read_submission(wrapped, None), judge=judge)


def store_bytes(tenant: Tenant, document: bytes) -> Handoff:
    return _store(tenant, Submission(document=document, format="payload"), judge=True)


def _store(tenant: Tenant, submission: Submission, *, judge: bool) -> Handoff:
    receipt = ingest.accept(tenant, SENDER, submission)
    assert receipt.id, receipt
    if judge:
        judging.drain()
    return Handoff.objects.get(pk=receipt.id)


def address(handoff: Handoff, rest: str = "") -> str:
    return f"/t/acme/handoffs/{handoff.pk}/{rest}"


class Page(HTMLParser):
    """The parts of a page that tests ask for: the text of each element with an id, tags and attributes."""

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


@pytest.fixture
def browser(client: Client, viewer: Person) -> Client:
    client.force_login(viewer)
    return client


def opened(browser: Client, handoff: Handoff, rest: str = "") -> Page:
    response = browser.get(address(handoff, rest))
    assert response.status_code == 200
    return Page(response.content.decode())


def test_a_loop_is_said_first_with_what_would_make_it_pass(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(target_agent_id="planner")))
    assert page.text("verdict-title") == "Rejected: circular chain"
    assert 'The target "planner" has had this work before' in page.text("issue-1")
    assert "To pass: Give the reason in handoff_reason" in page.text("issue-1")
    assert "chain-loop" in page.html
    assert "The target is already in the chain, at position 1." in page.text("chain")


def test_an_issue_leads_to_its_place_in_the_document(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(confidence=7)))
    assert "#at-/confidence" in page.links()
    assert "confidence is 7" in page.text("at-/confidence")
    assert "is7" in page.text("at-/confidence").replace(" ", "")


def test_a_missing_field_is_shown_in_its_parent(browser: Client, tenant: Tenant) -> None:
    document = universal()
    del document["handoff"]["source"]["phase"]
    page = opened(browser, store(tenant, document))
    assert "phase missing" in page.text("at-/handoff/source")
    assert "phase is missing." in page.text("at-/handoff/source/phase")
    assert "#at-/handoff/source/phase" in page.links()


def test_several_reasons_are_counted_and_numbered(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(confidence=7, handoff_type=5)))
    assert "Rejected for 2 reasons" in page.text("verdict-title")
    assert {"issue-1", "issue-2"} <= set(page.ids)


def test_an_accepted_one_says_so(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload()))
    assert "Accepted: nothing is wrong with it" in page.text("verdict-title")
    assert "passed" in page.text("layers")


def test_skipped_layers_say_why(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(confidence=7)))
    assert "structure failed" in page.text("layers")
    assert "tokens skipped structure failed" in page.text("layers")


def test_sections_over_their_budget_are_drawn_and_listed(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, universal()))
    assert "Rejected: over the token budget" in page.text("verdict-title")
    assert "section-over" in page.html
    assert "payload.working" in page.text("tokens")
    assert "Over its target: payload.working by" in page.text("tokens")


def test_a_long_chain_is_folded_and_opened_by_an_address(browser: Client, tenant: Tenant) -> None:
    agents = [f"agent_{number}" for number in range(30)]
    handoff = store(tenant, payload(source_agent_id="agent_29", call_chain=agents))
    page = opened(browser, handoff)
    assert "Held for a person: long chain needs approval" in page.text("verdict-title")
    assert "?chain=full#chain" in page.links()
    assert "agent_15</title>" not in page.html
    assert "agent_15</title>" in opened(browser, handoff, "?chain=full").html


def test_the_history_has_actor_time_and_reason(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(target_agent_id="planner")))
    assert "validating → rejected chain.circular" in page.text("history")
    assert "tests (key)" in page.text("history")


def test_the_decision_box_is_there_for_who_may_decide(
    client: Client, tenant: Tenant, reviewer: Person, viewer: Person
) -> None:
    handoff = store(tenant, payload(target_agent_id="planner"))
    client.force_login(viewer)
    assert "decide" not in opened(client, handoff).ids
    client.force_login(reviewer)
    assert "decide" in opened(client, handoff).ids
    assert "decide" not in opened(client, store(tenant, payload(handoff_id="h-2"))).ids


def test_what_a_person_decided_stands_at_the_top(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(target_agent_id="planner"))
    Handoff.objects.filter(pk=handoff.pk).update(state=State.APPROVED)
    Event.objects.create(
        tenant=tenant,
        handoff=handoff,
        at=timezone.now(),
        actor_kind="person",
        actor="ann",
        from_state="rejected",
        to_state="approved",
        reason="Checked with <b>the desk</b>.",
    )
    page = opened(browser, handoff)
    assert "Approved by ann" in page.text("verdict-title")
    assert "Checked with &lt;b&gt;the desk&lt;/b&gt;." in page.html


def test_shadow_mode_says_what_it_would_be(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(target_agent_id="planner"))
    Handoff.objects.filter(pk=handoff.pk).update(state=State.ACCEPTED, would_decide="rejected")
    page = opened(browser, handoff)
    assert "Let pass in shadow mode; it would be rejected: circular chain" in page.text("verdict-title")


def test_overdue_is_shown(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(call_chain=[*"abcdef", "researcher"]))
    assert "overdue" not in opened(browser, handoff).html
    Handoff.objects.filter(pk=handoff.pk).update(review_due_at=timezone.now() - timedelta(hours=1))
    assert "overdue" in opened(browser, handoff).html


def test_parent_and_trace_are_linked(browser: Client, tenant: Tenant) -> None:
    parent = store(
        tenant,
        payload(handoff_id="h-0", source_agent_id="planner", target_agent_id="researcher", call_chain=["planner"]),
    )
    handoff = store(tenant, payload(), trace_id="t/1&x", parent_handoff_id="h-0")
    links = opened(browser, handoff).links()
    assert address(parent) in links
    assert "/t/acme/handoffs/?trace=t%2F1%26x" in links


def test_earlier_attempts_are_linked(browser: Client, tenant: Tenant) -> None:
    first = store(tenant, payload(confidence=7))
    second = store(tenant, payload(handoff_id="h-2"), retry_of="h-1")
    assert address(first) in opened(browser, second).links()
    assert "A later attempt took its place" in opened(browser, first).text("verdict-title")


def test_context_and_evidence_are_shown(browser: Client, tenant: Tenant) -> None:
    evidence = [{"source": "crm", "content": "Five were asked."}]
    page = opened(browser, store(tenant, payload(), context={"question": "Who answered?"}, evidence=evidence))
    assert "Who answered?" in page.text("context")
    assert "Five were asked." in page.text("evidence")


def test_not_yet_judged_is_said_and_asked_for_again(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(), judge=False)
    page = opened(browser, handoff)
    assert "Not judged yet" in page.text("verdict-title")
    (asking,) = [attributes for _, attributes in page.tags if attributes.get("id") == "judging"]
    assert asking["hx-get"] == address(handoff)
    headers = {"HX-Request": "true", "HX-Target": "judging"}
    assert browser.get(address(handoff), headers=headers).status_code == 204
    judging.drain()
    answer = browser.get(address(handoff), headers=headers)
    assert (answer.status_code, answer["HX-Refresh"]) == (200, "true")
    assert "judging" not in opened(browser, handoff).ids


def parked(tenant: Tenant) -> Handoff:
    handoff = store(tenant, payload(), judge=False)
    Handoff.objects.filter(pk=handoff.pk).update(parked=True, state=State.VALIDATING, tries=3)
    Event.objects.create(
        tenant=tenant,
        handoff=handoff,
        at=timezone.now(),
        actor_kind="system",
        actor="handoffaudit",
        from_state="validating",
        to_state="validating",
        reason="parked after 3 tries",
    )
    return handoff


def test_a_parked_one_says_why_and_asks_no_more(browser: Client, tenant: Tenant) -> None:
    handoff = parked(tenant)
    page = opened(browser, handoff)
    assert "Parked" in page.text("verdict-title")
    assert "parked after 3 tries" in page.html
    assert "judging" not in page.ids
    assert "Judge again" not in page.html


def test_an_admin_has_a_parked_one_judged_again(client: Client, tenant: Tenant, admin: Person) -> None:
    handoff = parked(tenant)
    client.force_login(admin)
    assert "Judge again" in opened(client, handoff).html
    response = client.post(address(handoff, "again/"))
    assert (response.status_code, response["Location"]) == (302, address(handoff))
    judging.drain()
    handoff.refresh_from_db()
    assert handoff.state == State.ACCEPTED
    told = client.post(address(handoff, "again/"), follow=True)
    assert "It is not parked any more." in told.content.decode()


@pytest.mark.parametrize("who", ["viewer", "reviewer"])
def test_only_an_admin_has_it_judged_again(
    client: Client, tenant: Tenant, who: str, request: pytest.FixtureRequest
) -> None:
    client.force_login(request.getfixturevalue(who))
    handoff = parked(tenant)
    assert client.post(address(handoff, "again/")).status_code == 403
    handoff.refresh_from_db()
    assert handoff.parked


@pytest.mark.parametrize("rest", ["", "raw/", "part/?path=0"])
def test_another_tenant_finds_nothing(client: Client, tenant: Tenant, stranger: Person, rest: str) -> None:
    handoff = store(tenant, payload())
    client.force_login(stranger)
    assert client.get(address(handoff, rest)).status_code == 404
    assert client.get(address(handoff, rest).replace("acme", "globex")).status_code == 404


def test_the_raw_document_is_the_bytes_as_they_arrived(browser: Client, tenant: Tenant) -> None:
    sent = b'{"source_agent_id": "a",\r\n\t"x": "\xff\x00<script>" '
    response = browser.get(address(store_bytes(tenant, sent), "raw/"))
    assert response.content == sent
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment; ")
    assert response["X-Content-Type-Options"] == "nosniff"


def test_the_raw_tab_shows_it_without_script(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"text": "<script>alert(1)</script>"}))
    page = opened(browser, handoff, "?view=raw")
    assert "<script>alert(1)</script>" in page.ids["document"]
    assert "<script>alert(1)" not in page.html
    part = browser.get(address(handoff, "?view=raw"), headers={"HX-Request": "true", "HX-Target": "document"})
    assert part.content.decode().lstrip().startswith("<section")
    assert "HX-Target" in part["Vary"]


def test_what_is_not_json_is_marked_where_reading_stopped(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store_bytes(tenant, b'{\n  "source_agent_id": "coder",\n  "data": {\'a\': 1}\n}\n'))
    assert "Rejected: not JSON" in page.text("verdict-title")
    assert "line 3, column 12" in page.text("spot")
    assert "<mark>&#x27;</mark>a&#x27;: 1}" in page.html
    assert "#spot" in page.links()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\xff\xfe\x00",
        b"{",
        b"[" * 5000,
        b'{"a": "' + b"x" * 100_000,
        b"\n" * 5000 + b"{]",
        b'{"a": "\\ud800"}',
        b"[]",
        b"null",
        b'"<script>alert(1)</script>"',
        b'\xef\xbb\xbf{"a": tru}',
    ],
    ids=lambda sent: ascii(sent[:16]),
)
def test_whatever_arrives_has_a_page(browser: Client, tenant: Tenant, sent: bytes) -> None:
    handoff = store_bytes(tenant, sent)
    response = browser.get(address(handoff))
    assert response.status_code == 200
    assert len(response.content) < MOST_SENT
    page = Page(response.content.decode())
    assert "Rejected" in page.text("verdict-title")
    assert "<script>alert(1)" not in page.html


HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7|add:7 }}{% debug %}\u202e\x00"


def test_a_hostile_document_stays_text(browser: Client, tenant: Tenant) -> None:
    document = payload(
        source_agent_id=HOSTILE,
        target_agent_id=HOSTILE,
        call_chain=[HOSTILE, "x"],
        handoff_type=HOSTILE,
        data={HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}},
        confidence=HOSTILE,
    )
    handoff = store(tenant, document, context={HOSTILE: HOSTILE}, trace_id=HOSTILE[:100])
    for rest in ("", "?view=raw", "part/?path=6", "part/?path=6.0", "part/?of=context&path=0"):
        response = browser.get(address(handoff, rest))
        assert response.status_code == 200, rest
        page = Page(response.content.decode())
        assert "<script>alert" not in page.html
        assert not list(page.handlers())
        assert not [tag for tag, _ in page.tags if tag == "img"]
        assert not [link for link in page.links() if link.startswith("javascript:")]
        assert not set(page.html) & {"\x00", "\u202e"}
        assert "style-src 'self'" in response["Content-Security-Policy"]


def test_a_megabyte_is_answered_in_part(browser: Client, tenant: Tenant) -> None:
    rows = [{"id": number, "text": "<&\"'>" * 12, "tags": ["x", "y"]} for number in range(5_500)]
    handoff = store(
        tenant, payload(data={"rows": rows, "text": "y" * 200_000, **{f"k{n}": "z" * 900 for n in range(200)}})
    )
    assert handoff.size_bytes > 900_000
    started = timezone.now()
    response = browser.get(address(handoff))
    assert timezone.now() - started < timedelta(seconds=2)
    assert len(response.content) < MOST_SENT
    page = Page(response.content.decode())
    assert "show 5488 more" in page.text("document")
    assert len(browser.get(address(handoff, "?view=raw")).content) < MOST_SENT


def test_very_many_issues_are_shown_in_part(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, universal(**{f"{number}{'<' * 150}": {"a": "&" * 500} for number in range(150)}))
    response = browser.get(address(handoff))
    assert len(response.content) < MOST_SENT
    page = Page(response.content.decode())
    assert "?issues=all" in page.links()
    whole = opened(browser, handoff, "?issues=all")
    assert sum(bool(re.fullmatch(r"issue-\d+", name)) for name in whole.ids) > sum(
        bool(re.fullmatch(r"issue-\d+", name)) for name in page.ids
    )


def test_more_of_a_list_is_fetched_by_its_address(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"list": [f"entry {number}" for number in range(100)]}))
    page = opened(browser, handoff)
    (more,) = [link for link in page.links() if "path=6.0" in link]
    whole = Page(browser.get(more).content.decode())
    assert "entry 12" in whole.html
    assert "<html" in whole.html
    fragment = browser.get(more, headers={"HX-Request": "true"}).content.decode()
    assert "entry 12" in fragment
    assert "entry 11" not in fragment
    assert "<html" not in fragment


def test_the_rest_of_a_text_is_fetched_by_its_address(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"text": "x" * 30_000 + "end"}))
    page = opened(browser, handoff)
    (more,) = [link for link in page.links() if "path=6.0" in link]
    first = browser.get(more, headers={"HX-Request": "true"}).content.decode()
    assert "x" * 20_000 in first
    (following,) = Page(f"<p>{first}</p>").links()
    assert "end" in browser.get(following, headers={"HX-Request": "true"}).content.decode()


@pytest.mark.parametrize(
    "query",
    ["path=99", "path=x", "path=0&from=-1", "path=0&from=x", "of=nothing&path=0", "of=evidence", f"path={'0.' * 900}0"],
)
def test_a_part_that_is_not_there_is_not_found(browser: Client, tenant: Tenant, query: str) -> None:
    assert browser.get(address(store(tenant, payload()), f"part/?{query}")).status_code == 404


def test_only_reading_is_done_by_get(client: Client, tenant: Tenant, admin: Person) -> None:
    client.force_login(admin)
    handoff = parked(tenant)
    assert client.get(address(handoff, "again/")).status_code == 405
    assert client.post(address(handoff)).status_code == 405
