"""Tests of the page of one handoff: its findings and their fixes."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Approval, Event, Handoff, State
from handoffaudit.handoffs.review import decisions
from tests.dashboard.handoff_page import address, opened, payload, store, universal
from tests.handoffs.support import SENDER, circular, held, judged, switch_off
from tests.pages import attributes, links


@pytest.fixture
def browser(client: Client, viewer: Person) -> Client:
    client.force_login(viewer)
    return client


def test_a_loop_is_said_first_with_what_would_make_it_pass(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(target_agent_id="planner")))
    assert page.text("verdict-title") == "Rejected: circular chain"
    assert 'The target "planner" must NOT appear in call_chain' in page.text("issue-1")
    assert "To pass: Give the reason in handoff_reason" in page.text("issue-1")
    assert "chain-loop" in page.html
    assert "The target is already in the chain, at position 1." in page.text("chain")


def test_links_to_issues_say_to_which_one(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(handoff_type=5, confidence=7)))
    told = attributes(page.html, '[aria-label^="Link to issue "]', "aria-label")
    assert len(told) == len(set(told)) == 2
    assert {one.rpartition(" at ")[2] for one in told} == {"handoff_type", "confidence"}


def test_a_layer_that_passed_says_how_much_it_found_all_the_same(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(confidence=0.1)))
    assert page.text("layers").count("passed, 1 warning") == 1


def test_a_layer_that_only_holds_is_not_shown_as_failed(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, held()))
    assert "chain holds" in page.text("layers")
    assert "chain failed" not in page.text("layers")
    assert "chain failed" in opened(browser, store(tenant, circular())).text("layers")


def test_an_empty_body_has_a_page_that_says_so(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, judged(tenant, b""))
    assert "it is empty" in page.text("issue-1")


def test_what_was_done_has_the_focus_on_the_page_after_it(
    client: Client, admin: Person, viewer: Person, tenant: Tenant
) -> None:
    client.force_login(admin)
    assert 'role="status" tabindex="-1" autofocus' not in client.get("/t/acme/settings/").text
    page = client.post(f"/t/acme/settings/people/{viewer.pk}/role/", {"role": "reviewer"}, follow=True).text
    assert page.count('<div role="status" tabindex="-1" autofocus>') == 1


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
    switch_off(tenant, "semantic")
    page = opened(browser, store(tenant, payload()))
    assert "Accepted: no findings" in page.text("verdict-title")
    assert "passed" in page.text("layers")


def test_an_accepted_one_that_no_model_could_check_says_that(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload()))
    assert page.text("verdict-title") == "Accepted: no findings in the checks that ran"
    # A green tick would say that the LLM was content.
    assert "semantic skipped" in page.text("layers")
    assert "No LLM key is configured" in page.text("layers")
    assert "issue-1" not in page.ids


def test_skipped_layers_say_why(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(confidence=7)))
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
    assert page.html.count('class="chain-node') < 30
    assert opened(browser, handoff, "?chain=full").html.count('class="chain-node') == 30


def test_the_activity_has_actor_time_and_reason(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(target_agent_id="planner")))
    assert "validating → rejected chain.circular" in page.text("activity")
    assert "tests (key)" in page.text("activity")


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
    assert "Accepted in shadow mode; otherwise rejected: circular chain" in page.text("verdict-title")


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
    assert "/t/acme/traces/t/1&x/" in links


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
    again = asking["hx-get"]
    assert again == f"{address(handoff)}?seen=1"
    headers = {"HX-Request": "true", "HX-Target": "judging"}
    assert browser.get(again, headers=headers).status_code == 204
    judge.drain()
    answer = browser.get(again, headers=headers)
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
    judge.drain()
    handoff.refresh_from_db()
    assert handoff.state == State.ACCEPTED
    told = client.post(address(handoff, "again/"), follow=True)
    assert "The handoff is no longer parked." in told.content.decode()


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


def test_only_reading_is_done_by_get(client: Client, tenant: Tenant, admin: Person) -> None:
    client.force_login(admin)
    handoff = parked(tenant)
    assert client.get(address(handoff, "again/")).status_code == 405
    assert client.post(address(handoff)).status_code == 405


def test_issues_are_listed_by_what_they_come_to(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, payload(target_agent_id="planner", confidence=0.1)))
    assert page.text("issues-decides") == "What decides 1"
    assert page.text("issues-warning") == "Warnings 1"
    assert 'is"planner"' in page.text("issue-1")
    assert "chain layer" in page.text("issue-1")
    assert "#issue-1" in page.links()


def test_an_issue_leads_to_its_code_and_to_others_like_it(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload(target_agent_id="planner"))
    assert "/t/acme/diagnostics/codes/chain.circular/" in opened(browser, handoff).links()
    assert "similar handoffs" not in opened(browser, handoff).text("issue-1")
    store(tenant, payload(handoff_id="h-2", target_agent_id="planner"))
    attribution.run()
    page = opened(browser, handoff)
    assert "2 similar handoffs" in page.text("issue-1")
    group = FindingGroup.objects.get(code="chain.circular")
    assert f"/t/acme/groups/{group.pk}/" in page.links()


def test_the_parts_of_the_page_are_linked_and_are_there(browser: Client, tenant: Tenant) -> None:
    page = opened(browser, store(tenant, universal(), context={"a": 1}))
    parts = [one.removeprefix("#") for one in links(page.html, '.sections a[href^="#"]')]
    assert {"why", "document", "tokens", "layers", "activity", "context"} <= set(parts) <= set(page.ids)


def test_the_ones_before_and_after_it_in_its_trace_are_linked(browser: Client, tenant: Tenant) -> None:
    work = [store(tenant, payload(handoff_id=f"w-{number}"), trace_id="work") for number in range(3)]
    store(tenant, payload(handoff_id="other"), trace_id="other")

    def around(handoff: Handoff) -> list[str]:
        tags = opened(browser, handoff).tags
        return [attributes["href"] or "" for _, attributes in tags if attributes.get("rel") in ("prev", "next")]

    assert around(work[1]) == [address(work[0]), address(work[2])]
    assert around(work[0]) == [address(work[1])]
    assert around(Handoff.objects.get(handoff_id="other")) == []


def test_a_long_activity_is_read_page_by_page(browser: Client, tenant: Tenant) -> None:
    handoff = store(tenant, payload())
    at = timezone.now()
    kept = {"tenant": tenant, "handoff": handoff, "at": at, "actor_kind": "system", "to_state": "held"}
    Event.objects.bulk_create(Event(reason=f"change {number}.", **kept) for number in range(600))
    read, rest = "", ""
    while True:
        page = opened(browser, handoff, rest)
        read += page.text("activity")
        older = [link for link in page.links() if link.startswith("?before=")]
        if not older:
            break
        rest = older[0].partition("#")[0]
    assert all(read.count(f"change {number}.") == 1 for number in range(600))
    assert "received" in read
    part = browser.get(address(handoff, rest), headers={"HX-Request": "true", "HX-Target": "activity"})
    assert part.content.decode().lstrip().startswith("<section")


@pytest.mark.parametrize("before", ["x", "-1", "9" * 30, "\u0661", "1-\u0661", f"1-{'g' * 32}"])
def test_a_cursor_of_the_activity_that_is_none_shows_the_latest(browser: Client, tenant: Tenant, before: str) -> None:
    assert "received" in opened(browser, store(tenant, payload()), f"?before={before}").text("activity")


@pytest.mark.parametrize(("who", "leads"), [("viewer", False), ("reviewer", True)])
def test_only_who_may_decide_is_led_to_the_decision(
    client: Client, tenant: Tenant, who: str, leads: bool, request: pytest.FixtureRequest
) -> None:
    client.force_login(request.getfixturevalue(who))
    page = opened(client, store(tenant, payload(target_agent_id="planner")))
    assert ("#decision" in page.links()) is leads


def test_the_page_says_what_became_of_an_approval(browser: Client, tenant: Tenant) -> None:
    handoff = judged(tenant, held(handoff_id="h"))
    decisions.decide_handoff(
        tenant=tenant, reference="h", decision=decisions.Decision.APPROVE, note="", actor=SENDER, seen_version=None
    )
    assert "The sender can use the approval once" in opened(browser, handoff).html
    handoff.refresh_from_db()
    Approval.objects.update(expires_at=timezone.now())
    assert "The approval expired unused" in opened(browser, handoff).html
    Approval.objects.update(expires_at=timezone.now() + timedelta(hours=1), policy_versions={})
    assert "A policy was saved after the approval" in opened(browser, handoff).html
    Approval.objects.update(used_at=timezone.now(), used_by="crew")
    assert "by crew." in opened(browser, handoff).html
