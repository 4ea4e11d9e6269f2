"""Tests of decisions that are undone, reopened, reassigned or made by two, and of the queue's views and events."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics.models import FindingGroup, GroupedHandoff
from handoffaudit.handoffs.models import Event, Handoff, PassedOn, ReviewHold
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy import kinds
from handoffaudit.validation.config import TypePolicy
from tests.handoffs.support import judged, payload
from tests.pages import attributes, select, text_of, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LONG_CHAIN = ["a", "b", "c", "d", "e", "planner"]
TOLD = {"HX-Request": "true", "HX-Target": "told"}


def client_of(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def do(client: Client, handoff: Handoff, what: str, **given: Any) -> Any:
    version = Handoff.objects.get(pk=handoff.pk).version
    headers = given.pop("headers", {})
    address = f"/t/acme/handoffs/{handoff.pk}/{what}/"
    return client.post(address, {"version": version, "note": ""} | given, headers=headers)


def state_of(handoff: Handoff) -> str:
    return Handoff.objects.get(pk=handoff.pk).state


def rows(client: Client, query: str = "") -> list[Handoff]:
    return [row.handoff for row in client.get(f"/t/acme/review/{query}").context["queue"].rows]


@pytest.fixture
def four_eyes(tenant: Tenant) -> None:
    row = TypePolicy("message", four_eyes=True)
    kinds.strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="root", note="Two look at messages.")


def test_a_decision_is_undone_from_the_page_that_followed_it(
    sign_in: SignIn, reviewer: Person, held: Handoff, submit: Submit
) -> None:
    submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    after = do(client, held, "decide", decision="approve")
    page = client.get(after["Location"], follow=True)
    assert f'action="/t/acme/handoffs/{held.pk}/undo/"' in page.text
    back = do(client, held, "undo")
    assert back["Location"] == f"/t/acme/review/{held.pk}/?done={held.pk}"
    assert state_of(held) == "held"


def test_taking_back_does_not_end_an_assignment_that_the_page_did_not_show(
    reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client, other = client_of(reviewer), client_of(colleague)
    do(client, held, "pass-on", to=colleague.username)
    seen = Handoff.objects.get(pk=held.pk).version
    do(other, held, "pass-on", to=reviewer.username, note="Yours, please.")
    answer = do(other, held, "take-back", version=seen)
    assert (answer.status_code, PassedOn.objects.get().to) == (409, reviewer)
    assert "Yours, please." in answer.text


def test_undo_is_offered_to_nobody_else_and_not_for_long(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    do(client, held, "decide", decision="approve")
    query = f"?done={held.pk}"
    assert client.get(f"/t/acme/review/{query}").context["notice"].may_undo
    assert not client_of(colleague).get(f"/t/acme/review/{query}").context["notice"].may_undo
    Event.objects.filter(handoff=held.pk).update(at=timezone.now() - timedelta(minutes=11))
    assert not client.get(f"/t/acme/review/{query}").context["notice"].may_undo
    assert do(client, held, "undo").status_code == 400
    assert state_of(held) == "approved"


def test_the_script_is_told_in_a_line_with_the_figures_and_a_way_to_undo(
    sign_in: SignIn, reviewer: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    answer = do(client, held, "decide", decision="approve", headers=TOLD)
    assert answer.status_code == 200
    assert attributes(answer, "body > [id]", "id") == ["told", "progress", "waiting"]
    assert "approved." in answer.text
    assert f'data-undo="{held.pk}"' in answer.text
    (told,) = [one for one in select(answer, "a[href]:has(b)") if text_of(one).startswith("1 decided today")]
    listed = client.get(told.attributes["href"])
    assert [one.pk for one in listed.context["handoffs"]] == [held.pk]


def test_the_script_is_told_why_nothing_was_decided(
    sign_in: SignIn, reviewer: Person, colleague: Person, circular: Handoff
) -> None:
    client = sign_in(reviewer)
    refused = do(client, circular, "decide", decision="approve", headers=TOLD)
    assert (refused.status_code, 'role="alert"' in refused.text) == (400, True)
    do(client_of(colleague), circular, "decide", decision="decline")
    stale = client.post(
        f"/t/acme/handoffs/{circular.pk}/decide/",
        {"version": circular.version, "decision": "decline"},
        headers=TOLD,
    )
    assert stale.status_code == 409
    assert "colleague changed the state to declined" in stale.text
    assert "<html" not in stale.text


def test_reopening_needs_a_note_and_keeps_what_was_typed(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    client = sign_in(reviewer)
    do(client, held, "decide", decision="decline")
    assert do(client, held, "reopen", note=" ").status_code == 400
    assert state_of(held) == "declined"
    page = do(client, held, "reopen", note="n" * 5001)
    assert "n" * 5001 in page.text
    assert do(client, held, "reopen", note="The planner was right.").status_code == 302
    assert state_of(held) == "held"


def test_passed_on_it_leaves_the_queue_and_stands_in_the_views_of_those_it_concerns(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client, other = sign_in(reviewer), client_of(colleague)
    assert do(client, held, "pass-on").status_code == 400
    assert do(client, held, "pass-on", to="colleague", note="You know the planner.").status_code == 302
    assert state_of(held) == "held"
    assert (rows(client), rows(client, "?view=mine"), rows(client, "?view=passed_on")) == ([], [], [held])
    assert rows(other, "?view=mine") == [held]
    assert "You know the planner." in other.get(f"/t/acme/review/{held.pk}/").text
    do(other, held, "take-back")
    assert rows(client) == [held]


def test_it_is_passed_on_to_nobody_who_may_not_decide(
    sign_in: SignIn, reviewer: Person, viewer: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    assert do(client, held, "pass-on", to=viewer.get_username(), note="Please.").status_code == 400
    assert do(client, held, "pass-on", to="a stranger", note="Please.").status_code == 400
    assert do(client, held, "pass-on", to="a\0stranger", note="Please.").status_code == 400
    assert rows(client) == [held]


@pytest.mark.usefixtures("four_eyes")
def test_where_two_decide_the_second_sees_what_the_first_proposes(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client, other = sign_in(reviewer), client_of(colleague)
    first = client.get(f"/t/acme/review/{held.pk}/").text
    assert "This type needs two people" in first
    assert {"Propose to approve a", "Propose to decline d"} <= set(texts(first, "button"))
    assert 'data-sends="proposes to approve it"' in first
    after = do(client, held, "decide", decision="approve", note="I know this chain.")
    assert client.get(after["Location"], follow=True).context["notice"].text.startswith("approval proposed")
    assert state_of(held) == "held"
    assert (rows(client, "?view=second"), rows(other, "?view=second")) == ([], [held])
    assert (rows(client, "?view=proposed"), rows(other, "?view=proposed")) == ([held], [])
    assert "Proposed by you, for somebody else: 1</a>" in client.get("/t/acme/review/?view=second").text
    assert "These wait for somebody besides you" in client.get("/t/acme/review/?view=proposed").text
    page = other.get(f"/t/acme/review/{held.pk}/")
    assert "reviewer proposes to approve it: “I know this chain.”" in text_of(page)
    assert 'data-sends="approves it"' in page.text
    assert 'data-sends="proposes to decline it"' in page.text
    do(other, held, "decide", decision="approve")
    assert state_of(held) == "approved"


def test_what_a_key_of_the_same_name_proposed_is_not_told_as_ones_own(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, held: Handoff
) -> None:
    row = TypePolicy("message", four_eyes=True)
    kinds.strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="root", note="Two look at messages.")
    decisions.decide_handoff(
        tenant=tenant,
        reference=str(held.pk),
        decision=decisions.Decision.APPROVE,
        note="",
        actor=Actor.key(reviewer.username),
        seen_version=None,
    )
    client = sign_in(reviewer)
    assert "data-own" not in client.get("/t/acme/review/").text
    assert "if it is the same, takes effect" in client.get(f"/t/acme/review/{held.pk}/").text


def test_names_that_turn_the_text_around_are_shown_as_signs_where_the_queue_is_narrowed(
    sign_in: SignIn, reviewer: Person, submit: Submit
) -> None:
    name = "\u202eegassem"
    submit(call_chain=LONG_CHAIN, handoff_type=name)
    page = sign_in(reviewer).get(f"/t/acme/review/?type={name}")
    (option,) = [one for one in select(page, "option[selected]") if one.attributes["value"] == name]
    assert name not in text_of(option)


def test_notes_of_past_decisions_alike_are_offered(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    past, now = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    do(client, past, "decide", decision="approve", note="Six agents are \u202eright here.")
    page = client.get(f"/t/acme/review/{now.pk}/")
    assert [one.note for one in page.context["similar"]] == ["Six agents are \u202eright here."]
    assert 'data-take="Six agents are \u202eright here."' in page.text
    assert text_of(page, ".similar-note") == "Six agents are ⟨U+202E⟩right here."


def test_the_queue_is_narrowed_by_type_agent_code_age_and_group(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit: Submit
) -> None:
    wanted = submit(source_agent_id="seeker", call_chain=["writer", "seeker"], handoff_type="acquittal")
    submit(call_chain=LONG_CHAIN)
    client = sign_in(viewer)
    for query in ("?type=acquittal", "?source=seeker", "?code=chain.circular"):
        assert rows(client, query) == [wanted], query
    assert rows(client, "?age=1h") == []
    now = timezone.now()
    group = FindingGroup.objects.create(tenant=tenant, code="x", key="k" * 64, first_seen=now, last_seen=now)
    GroupedHandoff.objects.create(tenant=tenant, group=group, handoff=wanted.pk, decisive=True)
    assert rows(client, f"?group={group.pk}") == [wanted]
    place = client.get("/t/acme/review/?view=second&type=acquittal&age=1d&cursor=held").context["queue_filters"]
    assert place.active_filters == [
        ("Type", "acquittal", "?view=second&age=1d"),
        ("Waiting", "over a day", "?view=second&type=acquittal"),
    ]


@pytest.mark.parametrize("query", ["view=old", "age=2y", "group=x", "type=" + "t" * 201])
def test_what_it_cannot_be_narrowed_by_is_told(sign_in: SignIn, viewer: Person, query: str) -> None:
    page = sign_in(viewer).get(f"/t/acme/review/?{query}")
    assert page.status_code == 400
    assert f"<b>{query.partition('=')[0]}</b>" in page.text


def test_the_kept_address_has_no_empty_fields(sign_in: SignIn, viewer: Person) -> None:
    answer = sign_in(viewer).get("/t/acme/review/?q=&type=message&code=&age=")
    assert answer["Location"] == "/t/acme/review/?type=message"


def test_fetched_ahead_it_is_held_only_when_it_is_opened(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    client.get(f"/t/acme/review/{held.pk}/?ahead=1", headers={"HX-Request": "true", "HX-Target": "item"})
    assert not ReviewHold.objects.exists()
    address = f"/t/acme/review/{held.pk}/hold/"
    assert client.post(address, {"version": held.version}).status_code == 204
    assert ReviewHold.objects.get().person == reviewer
    assert "<b>reviewer</b> has this open" in client_of(colleague).post(address, {"version": held.version}).text
    assert client.post(address, {"version": held.version - 1}).status_code == 409


def test_an_open_page_hears_who_opened_what_and_nothing_while_nothing_changes(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    seen = client.get("/t/acme/review/").context["queue"].held
    assert client.get(f"/t/acme/review/live/?held={seen}").status_code == 204
    client_of(colleague).get(f"/t/acme/review/{held.pk}/")
    heard = client.get(f"/t/acme/review/live/?held={seen}")
    assert heard.status_code == 200
    assert "colleague" in heard.text
    (later,) = (one.removeprefix("held=") for one in attributes(heard, '[data-live-seen^="held="]', "data-live-seen"))
    assert client.get(f"/t/acme/review/live/?held={later}").status_code == 204
    do(client_of(colleague), held, "decide", decision="decline")
    assert str(held.pk) not in client.get(f"/t/acme/review/live/?held={later}").text


def test_a_decided_one_is_opened_again_on_its_own_page(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    client = sign_in(reviewer)
    do(client, held, "decide", decision="decline")
    page = client.get(f"/t/acme/handoffs/{held.pk}/")
    assert f'action="/t/acme/handoffs/{held.pk}/reopen/"' in page.text
    answer = do(client, held, "reopen", note="Look again.", next="handoff")
    assert answer["Location"] == f"/t/acme/handoffs/{held.pk}/"
    assert "reopened: “Look again.” It waits again, held as before." in client.get(answer["Location"]).text


@pytest.mark.usefixtures("four_eyes")
def test_what_one_has_proposed_does_not_come_first_again(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    first, second = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    do(client, first, "decide", decision="approve")
    assert client.get("/t/acme/review/next/")["Location"] == f"/t/acme/review/{second.pk}/"


def told_after(client: Client, handoff: Handoff, what: str, **given: Any) -> str:
    return str(do(client, handoff, what, headers=TOLD, **given).context["notice"].text)


def test_each_way_back_into_the_queue_is_told_by_what_was_done(
    sign_in: SignIn, reviewer: Person, circular: Handoff
) -> None:
    client = sign_in(reviewer)
    do(client, circular, "decide", decision="decline")
    again = "It waits again, rejected as before."
    assert told_after(client, circular, "undo") == f"the decision is undone. {again}"
    do(client, circular, "decide", decision="decline")
    assert told_after(client, circular, "reopen", note="It is right.") == f"reopened: “It is right.” {again}"
    do(client, circular, "pass-on", note="Whose is it?")
    assert told_after(client, circular, "take-back") == f"back in the queue. {again}"


def test_what_was_done_is_undone_one_by_one_wherever_it_is_asked_for(
    sign_in: SignIn, reviewer: Person, submit: Submit
) -> None:
    first, second = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    for handoff in (first, second):
        do(client, handoff, "decide", decision="approve")
    address = "/t/acme/review/undo/"
    answer = client.post(address, {"type": "message"}, headers=TOLD)
    assert f'data-about="{second.pk}"' in answer.text
    assert f'href="/t/acme/review/{second.pk}/?type=message"' in answer.text
    assert client.post(address)["Location"] == f"/t/acme/review/{first.pk}/?done={first.pk}"
    nothing = client.post(address, headers=TOLD)
    assert (nothing.status_code, "Nothing was undone: none of your changes" in nothing.text) == (409, True)
    assert "data-about" not in nothing.text
    assert "Nothing was undone" in client.post(address, follow=True).text


def test_what_was_done_has_the_focus_on_a_page_that_was_loaded_for_it(
    sign_in: SignIn, reviewer: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    after = do(client, held, "decide", decision="approve")
    told = '#told[tabindex="-1"][autofocus]'
    assert select(client.get(after["Location"], follow=True), told)
    assert not select(client.get("/t/acme/review/"), told)


def test_what_was_passed_on_to_somebody_is_counted_on_the_tab_wherever_one_is_in_review(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff, circular: Handoff
) -> None:
    client, other = sign_in(reviewer), client_of(colleague)
    assert texts(other.get("/t/acme/review/"), "span:has(+ span.views-number)") == []
    do(client, held, "pass-on", to="colleague", note="You know the planner.")
    for address in ("/t/acme/review/", f"/t/acme/review/{circular.pk}/"):
        page = other.get(address)
        assert texts(page, "span:has(+ span.views-number)") == ["Assigned to me"]
        assert texts(page, "span + span.views-number") == ["1"]
        assert texts(client.get(address), "span + span.views-number") == []


def test_opened_by_its_address_one_stands_below_the_same_tabs_as_the_queue(
    sign_in: SignIn, reviewer: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    for address in ("/t/acme/review/", f"/t/acme/review/{held.pk}/"):
        page = client.get(address).text
        assert "Your default view of Review" in page
        assert "/t/acme/review/export/" in page
        assert page.count('class="views-tabs"') == 1


def test_what_a_colleague_proposed_with_a_note_asks_for_none_of_who_agrees(
    sign_in: SignIn, reviewer: Person, colleague: Person, circular: Handoff, four_eyes: None
) -> None:
    asked = 'data-note-for="approve"'
    client, other = sign_in(reviewer), client_of(colleague)
    assert asked in client.get(f"/t/acme/review/{circular.pk}/").text
    assert 'data-sends="proposes to approve it, with a note"' in client.get(f"/t/acme/review/{circular.pk}/").text
    do(other, circular, "decide", decision="approve", note="It is right.")
    assert asked not in client.get(f"/t/acme/review/{circular.pk}/").text
    assert asked in other.get(f"/t/acme/review/{circular.pk}/").text


def test_undo_of_a_decided_handoff_is_offered_for_its_last_change_only(
    sign_in: SignIn, reviewer: Person, colleague: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    page = f"/t/acme/handoffs/{held.pk}/"
    do(client, held, "decide", decision="approve")
    assert "/undo/" in client.get(page).text
    do(client, held, "assign", to=colleague.username)
    assert "/undo/" not in client.get(page).text
    notice = client.get(f"/t/acme/review/?done={held.pk}").context["notice"]
    assert (notice.text, notice.may_undo) == ("assigned to colleague.", True)
    do(client, held, "undo")
    assert "/undo/" in client.get(page).text
    assert client.get(f"/t/acme/review/?done={held.pk}").context["notice"].text == "approved."
    do(client, held, "undo")
    assert state_of(held) == "held"


def test_the_notice_of_a_reopened_handoff_names_the_later_attempt(
    sign_in: SignIn, reviewer: Person, held: Handoff
) -> None:
    client = sign_in(reviewer)
    do(client, held, "decide", decision="approve")
    judged(held.tenant, payload(handoff_id="later"), retry_of=held.handoff_id)
    after = do(client, held, "reopen", note="Wrong.", headers=TOLD)
    assert "superseded: later took its place." in text_of(select(after, "#told")[0])


def test_notes_show_signs_that_turn_text(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    client = sign_in(reviewer)
    address = f"/t/acme/handoffs/{held.pk}/"
    for decision, note in (("pass-on", "ask\u202eonce"), ("decline", "no\u202eway"), ("reopen", "see\u202eagain")):
        if decision == "decline":
            assert do(client, held, "decide", decision="decline", note=note).status_code == 302
        else:
            assert do(client, held, decision, note=note).status_code == 302
        page = client.get(address).text
        assert note.replace("\u202e", "⟨U+202E⟩") in page
        assert "\u202e" not in page
