"""Tests of the document on the page of a handoff: raw, in parts, hostile, large, and not JSON at all."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.validation.times import utc_text
from tests.dashboard.handoff_page import Page, address, opened, payload, store, store_bytes, universal
from tests.elapsed import BOUNDED, cpu_seconds
from tests.pages import select

MOST_SENT = 150_000


@pytest.fixture
def browser(client: Client, viewer: Person) -> Client:
    client.force_login(viewer)
    return client


def test_the_raw_document_is_the_bytes_as_they_arrived(browser: Client, tenant: Tenant) -> None:
    sent = b'{"source_agent_id": "a",\r\n\t"x": "\xff\x00<script>" '
    response = browser.get(address(store_bytes(tenant, sent), "raw/"))
    assert response.content == sent
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment; ")
    assert response["X-Content-Type-Options"] == "nosniff"


def test_a_late_handoff_shows_when_it_was_sent_and_received(browser: Client, tenant: Tenant) -> None:
    sent = timezone.now() - timedelta(days=2)
    handoff = store(tenant, payload(), sent_at=utc_text(sent), trace_id="t")
    facts = opened(browser, handoff).text("facts")
    assert f"Sent {sent.day} {sent:%b %H:%M}" in " ".join(facts.split())
    assert f"{handoff.received_at:%H:%M:%S}" in facts
    for url in ("handoffs/", "traces/t/"):
        html = browser.get(f"/t/{tenant.slug}/{url}").content.decode()
        assert f"{sent:%Y-%m-%d %H:%M:%S} UTC" in html
        assert f"; received {handoff.received_at:%Y-%m-%d %H:%M:%S} UTC" in html


def test_the_reason_beside_the_document_is_shown_as_text(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(), reason="<b>Second check.</b>"))
    assert "<b>Second check.</b>" in page.text("facts")


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
    handoff = store(tenant, document, context={HOSTILE: HOSTILE}, trace_id=HOSTILE[:60])
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
    answers = []
    assert cpu_seconds(lambda: answers.append(browser.get(address(handoff)))) < BOUNDED
    response = answers[0]
    assert len(response.content) < MOST_SENT
    page = Page(response.content.decode())
    assert "show 5488 more" in page.text("document")
    assert len(browser.get(address(handoff, "?view=raw")).content) < MOST_SENT


def test_every_part_that_folds_is_a_place_to_link_to(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(data={"a/b": {"c": [{"d": {"e": 1}}]}, "\"<'": {"x": [1]}})))
    entries = [attrs["id"] for tag, attrs in page.tags if tag == "li" and str(attrs.get("class")).startswith("entry")]
    assert len(entries) > len(payload())
    # A leaf's by its key, else by a link that says what it leads to.
    assert [f"#{entry}" for entry in entries if f"#{entry}" not in page.links()] == []
    told = [attrs["aria-label"] for _, attrs in page.tags if attrs.get("class") == "tree-place"]
    assert told == [
        "Link to call_chain",
        "Link to data",
        "Link to a/b",
        "Link to c",
        "Link to entry 0",
        "Link to d",
        *told[6:],
    ]


def numbered(page: Page) -> list[str]:
    return [name for name in page.ids if re.fullmatch(r"issue-\d+", name)]


def test_very_many_issues_are_shown_page_by_page(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, universal(**{f"{number}{'<' * 150}": {"a": "&" * 500} for number in range(150)}))
    seen: list[str] = []
    rest = ""
    while True:
        response = browser.get(address(handoff, rest))
        assert len(response.content) < MOST_SENT
        page = Page(response.content.decode())
        seen += numbered(page)
        following = [link for link in page.links() if link.startswith("?issues=")]
        if not following:
            break
        (rest,) = following
    assert sorted(seen) == sorted(f"issue-{number}" for number in range(1, 101))


def test_a_document_made_to_swell_is_bounded(browser: Client, tenant: Tenant) -> None:
    data = {f"{number}{chr(0x202E) * 100}": "\x00" * 300 for number in range(300)}
    response = browser.get(address(store(tenant, payload(data=data), context={"c": "\x00" * 20_000})))
    assert len(response.content) < MOST_SENT


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
    handoff = store(tenant, payload(data={"text": "x" * 15_000 + "end"}))
    page = opened(browser, handoff)
    (more,) = [link for link in page.links() if "path=6.0" in link]
    first = browser.get(more, headers={"HX-Request": "true"}).content.decode()
    assert "x" * 10_000 in first
    (following,) = Page(f"<p>{first}</p>").links()
    assert "end" in browser.get(following, headers={"HX-Request": "true"}).content.decode()


@pytest.mark.parametrize(
    "query",
    ["path=99", "path=x", "path=0&from=-1", "path=0&from=x", "of=nothing&path=0", "of=evidence", f"path={'0.' * 900}0"],
)
def test_a_part_that_is_not_there_is_not_found(browser: Client, tenant: Tenant, query: str) -> None:
    assert browser.get(address(store(tenant, payload()), f"part/?{query}")).status_code == 404


def rows(number: int) -> list[dict[str, object]]:
    return [{"id": number, "deep": {"name": f"row {number}"}} for number in range(number)]


def test_a_place_far_down_has_an_address_that_shows_it(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"rows": rows(3000)}))
    assert "row 2500" not in opened(browser, handoff).html
    page = opened(browser, handoff, "?at=/data/rows/2500/deep")
    (wanted,) = [attributes for _, attributes in page.tags if attributes.get("aria-current") == "location"]
    assert wanted["id"] == "at-/data/rows/2500/deep"
    assert "row 2500" in page.text("at-/data/rows/2500/deep")


@pytest.mark.parametrize("at", ["/data/rows/9", "/nothing", "/data/text/x", "nothing", "/" * 5000])
def test_a_place_that_the_document_does_not_have_is_said(browser: Client, tenant: Tenant, at: str) -> None:
    assert "The document has no place" in opened(browser, store(tenant, payload()), f"?at={at}").text("document")


def test_what_is_missing_has_an_address_too(browser: Client, tenant: Tenant) -> None:
    document = universal()
    del document["handoff"]["source"]["phase"]
    page = opened(browser, store(tenant, document), "?at=/handoff/source/phase")
    assert "The document has no place" not in page.text("document")
    assert "at-/handoff/source/phase" in page.ids


def test_what_is_looked_up_leads_to_its_places(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"rows": rows(500)}))
    page = opened(browser, handoff, "?find=ROW+321")
    assert "1 place with “ROW 321”" in page.text("document")
    (hit,) = [link for link in page.links() if "?at=" in link]
    assert "row 321" in Page(browser.get(hit.partition("#")[0]).content.decode()).text("at-/data/rows/321/deep/name")
    assert "does not contain “needle”" in opened(browser, handoff, "?find=needle").text("document")


def test_a_hostile_search_stays_text(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={HOSTILE: HOSTILE}))
    response = browser.get(address(handoff), {"find": "<script>alert(1)", "at": HOSTILE})
    page = Page(response.content.decode())
    assert "<script>alert" not in page.html
    assert "places with" in page.text("document")


def test_only_what_leads_to_issues_is_shown_when_asked_for(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(confidence=7)), "?only=issues")
    assert "at-/confidence" in page.ids
    assert "at-/handoff_type" not in page.ids
    assert "Show everything" in page.text("document")


def test_parts_in_which_issues_are_say_how_many(browser: Client, tenant: Tenant) -> None:
    document = universal()
    del document["handoff"]["source"]["phase"], document["handoff"]["source"]["skill"]
    assert "source { } 2 fields 2 findings inside" in opened(browser, store(tenant, document)).text(
        "at-/handoff/source"
    )


def test_everything_is_unfolded_when_asked_for(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"a": {"b": {"c": {"d": 1}}}}))

    def folded(rest: str) -> int:
        return len(select(opened(browser, handoff, rest).html, "#document details:not([open])"))

    assert (folded(""), folded("?open=all")) == (2, 0)


def test_the_section_alone_is_answered_to_htmx(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(confidence=7))
    headers = {"HX-Request": "true", "HX-Target": "document"}
    for rest, said in (("?find=confidence", "with “confidence”"), ("?only=issues", "Show everything"), ("", "Find")):
        part = browser.get(address(handoff, rest), headers=headers).content.decode()
        assert part.lstrip().startswith("<section")
        assert said in part


def test_a_large_one_that_arrived_is_read_part_by_part(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(data={"text": "x" * 45_000 + "the end"}))
    rest, turned = "?view=raw", 0
    while True:
        page = opened(browser, handoff, rest)
        following = [link for link in page.links() if link.startswith("?view=raw&start=")]
        if "the end" in page.ids["raw"]:
            break
        rest, turned = following[-1].partition("#")[0], turned + 1
    assert turned == 2


def test_a_handoff_of_a_trace_says_which_rule_found_it_and_what_was_inferred(browser: Client, tenant: Tenant) -> None:
    document = {
        "type": "opentelemetry.handoff",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
        "span_name": "<b>transfer_to_agent</b>",
        "rule": "tool",
        "inferred": {"target": "next_agent", "source": 3, "data": "unknown"},
        "source": "triage",
        "target": "writer",
        "data": {"text": "Three of five suppliers answered."},
    }
    facts = " ".join(opened(browser, store(tenant, document)).text("facts").split())
    assert "Read from a trace; target inferred from the next agent span." in facts
    assert "Rule: a tool that is named like a handoff, in <b>transfer_to_agent</b>. Nothing waited" in facts
    wrong = document | {"handoff_id": "h-2", "rule": ["tool"], "inferred": [], "span_id": {}}
    assert "Read from a trace" not in opened(browser, store(tenant, wrong, handoff_id="h-2")).text("facts")
