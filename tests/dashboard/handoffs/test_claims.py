"""Tests of the page of a handoff: claims beside their evidence, attempts and repair."""

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.api.examples import UNIVERSAL
from handoffaudit.dashboard.handoffs.claims import claims_of
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff
from tests.dashboard.handoff_page import Page, address, opened
from tests.handoffs.support import circular, judged, payload
from tests.pages import select, text_of, texts
from tests.validation.layers.grounding.test_wording import REPORT, SUMMARY

pytestmark = pytest.mark.django_db
SUPPLIERS = {
    "summary": "Three suppliers deliver by 12 March 2024 for 1,200 euros.",
    "evidence_refs": {"summary": ["offers", "call"]},
}
OFFERS = [
    {"source": "offers", "content": {"suppliers": ["a", "b", "c"], "price": 1200, "currency": "euros"}},
    {"source": "weather", "content": "It rains."},
]


@pytest.fixture
def browser(client: Client, reviewer: Person) -> Client:
    client.force_login(reviewer)
    return client


def test_values_are_marked_in_the_text_beside_what_they_rest_on(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, judged(tenant, payload(data=SUPPLIERS), evidence=OFFERS))
    claims = page.text("claims")
    assert "data.summary" in claims or "summary" in claims
    for said in (
        "12 March 2024",
        "date, in no source",
        "1,200",
        "offers",
        "not supplied",
        "Evidence that no claim cites (1)",
    ):
        assert said in claims
    assert [one[:13] for one in texts(page.html, "mark.value-mark--ungrounded")] == ["12 March 2024"]
    assert "value-mark--grounded" in page.html


def test_a_text_is_shown_as_it_arrived_with_its_findings_at_its_place(browser: Client, tenant: Tenant) -> None:
    document = payload(data="Three suppliers deliver by 12 March 2024.")
    handoff = judged(tenant, document, context={"question": "Who delivers?"})
    page = opened(browser, handoff)
    assert [one[:13] for one in texts(page.html, "mark.value-mark--ungrounded")] == ["12 March 2024"]
    assert "data.text" not in page.html
    assert "Three suppliers deliver by 12 March 2024." in page.text("document")
    page = opened(browser, handoff, "?at=/data")
    assert "The document has no place" not in page.text("document")
    assert "Three suppliers deliver" in page.text("at-/data")


def test_a_value_of_a_guessed_observer_is_reported_in_words_and_with_its_own_line(
    browser: Client, tenant: Tenant
) -> None:
    document = payload(source_agent_id="terminal", call_chain=["terminal"], data={"text": "exitcode: 0, 4711 rows"})
    page = opened(browser, judged(tenant, document))
    (mark,) = select(page.html, ".claim-text mark")
    assert mark.attributes["class"] == "value-mark value-mark--reported"
    assert texts(page.html, ".claim-totals li") == ["1 reported, of unknown origin"]
    assert "no evidence confirms it" in text_of(page.html, ".claim-values")
    assert "declare the role of the agent" in page.html


def test_a_claim_that_cites_only_unknown_sources_is_shown_in_amber(browser: Client, tenant: Tenant) -> None:
    data = {**SUPPLIERS, "evidence_refs": {"summary": "made-up-source"}}
    page = opened(browser, judged(tenant, payload(data=data), evidence=OFFERS))
    assert '<span class="tag tag--wait">cites an unknown source</span>' in page.html
    assert '<span class="tag tag--wait">not supplied</span>' in page.html
    assert not select(page.html, "#claim-1 .tag--good")
    assert "cites an unknown source" in text_of(page.html, "#claim-1")


def test_a_verdict_from_before_still_opens(tenant: Tenant) -> None:
    handoff = judged(tenant, payload(data={**SUPPLIERS, "evidence_refs": {"summary": "made-up-source"}}))
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    verdict["claims"][0]["claim_type"] = "cited"
    shown = claims_of(verdict, None, OFFERS)
    assert shown is not None
    assert (shown.shown[0].type_words, shown.shown[0].cited[0].is_known) == ("cited", False)


def test_a_value_with_a_capital_i_with_a_dot_is_marked_in_its_source(tenant: Tenant) -> None:
    link = "https://example.com/\u0130zmir/4711"
    data = {"summary": f"The offer is at {link} today.", "evidence_refs": {"summary": "offers"}}
    evidence = [{"source": "offers", "content": f"\u0130lk teklif: {link}"}]
    shown = claims_of(queries.current_verdict(judged(tenant, payload(data=data), evidence=evidence)), None, evidence)
    assert shown is not None
    assert [piece.text for piece in shown.shown[0].cited[0].pieces if piece.value] == [link]
    (value,) = shown.shown[0].values
    assert [span.found for span in value.where] == [link]


@pytest.mark.parametrize(
    ("was", "said", "asked"),
    [
        ("2019", "2018", 'did you mean <span class="mono">2019</span>?'),
        ("rise", "fall", 'the source says <span class="mono">rise</span>'),
    ],
)
def test_what_may_have_been_meant_is_asked_as_in_the_hint(
    browser: Client, tenant: Tenant, was: str, said: str, asked: str
) -> None:
    handoff = judged(tenant, payload(data={"text": SUMMARY.replace(was, said)}), context={"report": REPORT})
    assert asked in opened(browser, handoff).html


def test_marks_stand_where_the_verdict_says_also_past_what_it_keeps(tenant: Tenant) -> None:
    text = "Filler words without values. " * 30 + "The price is 4711 euros."
    handoff = judged(tenant, payload(data={"summary": text}), context={"note": "no price"})
    shown = claims_of(queries.current_verdict(handoff), {"data": {"summary": text}}, ())
    assert shown is not None
    pieces = shown.shown[0].pieces
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.text for piece in pieces if piece.value and "4711" in piece.text]


def test_a_handoff_without_claims_has_no_such_part(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, judged(tenant, payload(data={"ok": True})))
    assert "claims" not in page.ids


def test_attempts_stand_with_what_each_changed_and_what_was_asked(browser: Client, tenant: Tenant) -> None:
    first = judged(tenant, circular(handoff_id="one"))
    assert "Due next: fix it and send it again. After that, 1 more try" in opened(browser, first).text("attempts")
    second = judged(tenant, payload(handoff_id="two"), retry_of="one")
    attempts = opened(browser, second).text("attempts")
    passed = "Accepted without a finding: nothing to do"
    for said in ("target_agent_id", "planner", "writer", "Fix it and send it again", "try 1", passed):
        assert said in attempts


def broken(tenant: Tenant) -> Handoff:
    handoff = {name: value for name, value in UNIVERSAL["handoff"].items() if name != "version"}
    return judged(tenant, {"handoff": handoff}, handoff_id="h", format="universal")


def test_a_repair_is_shown_before_it_is_stored(browser: Client, tenant: Tenant) -> None:
    first = broken(tenant)
    assert f"{address(first)}repair/" in opened(browser, first).links()
    page = Page(browser.get(address(first, "repair/")).content.decode())
    for said in ("It can be repaired.", "handoff.version", "would be accepted", "Store it as a new attempt"):
        assert said in page.html
    assert Handoff.objects.count() == 1
    answer = browser.post(address(first, "repair/"))
    later = Handoff.objects.get(repaired=True)
    assert answer["Location"] == address(later)
    assert later.state == "accepted"
    assert "Stored as attempt 2, which is accepted." in opened(browser, later).html


def test_what_no_rule_can_mend_is_said_and_can_be_escalated(browser: Client, tenant: Tenant) -> None:
    loop = judged(tenant, circular(handoff_id="loop"))
    page = Page(browser.get(address(loop, "repair/")).content.decode())
    assert "No repair led to a document that can replace this one" in page.html
    browser.post(address(loop, "repair/"))
    assert "the handoff is escalated to a person." in opened(browser, Handoff.objects.get(handoff_id="loop")).html


def test_what_is_not_rejected_is_not_repaired(browser: Client, tenant: Tenant) -> None:
    good = judged(tenant, payload())
    assert browser.get(address(good, "repair/")).status_code == 302
    assert "Repair…" not in opened(browser, good).html


def test_a_viewer_repairs_nothing(client: Client, viewer: Person, tenant: Tenant) -> None:
    client.force_login(viewer)
    first = broken(tenant)
    assert client.post(address(first, "repair/")).status_code == 403
    assert Handoff.objects.count() == 1


def test_a_reviewer_sees_claims_beside_evidence_and_what_each_attempt_changed(browser: Client, tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="h-1", data=SUPPLIERS), evidence=OFFERS)
    changed = SUPPLIERS | {"summary": "Three suppliers deliver by 14 May 2025."}
    again = judged(tenant, circular(handoff_id="h-2", data=changed), retry_of="h-1", evidence=OFFERS)
    page = Page(browser.get(f"/t/{tenant.slug}/review/{again.pk}/").text)
    claims = page.text("item-claims")
    for said in ("14 May 2025", "date, in no source", "offers", "not supplied"):
        assert said in claims
    attempts = page.text("item-attempts")
    for said in ("this one", "data.summary", "before: ", "12 March 2024", "14 May 2025"):
        assert said in attempts


def test_a_reviewer_of_a_first_attempt_without_claims_sees_no_empty_parts(browser: Client, tenant: Tenant) -> None:
    page = Page(browser.get(f"/t/{tenant.slug}/review/{judged(tenant, circular(data={'ok': True})).pk}/").text)
    assert "item-title" in page.ids
    assert {"item-claims", "item-attempts"}.isdisjoint(page.ids)


def test_a_value_is_marked_where_its_source_has_it(browser: Client, tenant: Tenant) -> None:
    content = f"{'Nothing of note. ' * 60}The pump costs 1,200 euros. {'Nothing more. ' * 60}"
    data = {"summary": "The pump costs 1,200 euros.", "evidence_refs": {"summary": ["offer"]}}
    page = opened(browser, judged(tenant, payload(data=data), evidence=[{"source": "offer", "content": content}]))
    quoted = select(page.html, "blockquote")[0]
    assert any(one.startswith("1,200") for one in texts(quoted, "mark.value-mark--grounded"))
    assert "offer (evidence[0].content)" in page.text("claims")


def test_what_is_in_no_source_says_what_was_searched(browser: Client, tenant: Tenant) -> None:
    handoff = judged(tenant, payload(data=SUPPLIERS), evidence=OFFERS, context={"question": "Who delivers?"})
    assert "in no source: looked for in context.question, offers, weather" in opened(browser, handoff).text("claims")


def test_any_two_attempts_can_be_compared(browser: Client, tenant: Tenant) -> None:
    first = judged(tenant, circular(handoff_id="one", data={"a": 1, "gone": 2}))
    judged(tenant, circular(handoff_id="two", data={"a": 5}), retry_of="one")
    third = judged(tenant, payload(handoff_id="three", data={"a": 9, "new": [3]}), retry_of="one")
    page = opened(browser, third)
    assert "compared" not in page.ids
    query = f"?from={first.pk}&to={third.pk}"
    for told in (opened(browser, third, query).text("compared"), part(browser, third, query)):
        for said in ("What attempt 3 changed in attempt 1", "~ changed", "data.a", "removed", "data.gone", "+ added"):
            assert said in told
    back = opened(browser, third, f"?from={third.pk}&to={first.pk}").text("compared")
    assert "What attempt 1 changed in attempt 3" in back
    assert "+ added data.gone" in back


def part(browser: Client, handoff: Handoff, query: str) -> str:
    headers = {"HX-Request": "true", "HX-Target": "attempts"}
    html = browser.get(address(handoff, query), headers=headers).content.decode()
    assert html.lstrip().startswith("<section")
    return Page(html).text("compared")


def test_attempts_of_others_are_not_compared(browser: Client, tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="one"))
    second = judged(tenant, payload(handoff_id="two"), retry_of="one")
    other = judged(tenant, payload(handoff_id="other"))
    assert "compared" not in opened(browser, second, f"?from={other.pk}&to={second.pk}").ids
    assert "compared" not in opened(browser, second, "?from=x&to=y").ids
