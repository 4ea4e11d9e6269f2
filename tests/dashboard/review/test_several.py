from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.review import bulk, decide, queue
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import bulk as review_bulk
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy import kinds
from handoffaudit.validation.config import TypePolicy
from tests.handoffs.support import judged
from tests.pages import hidden_fields, only, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LONG_CHAIN = ["a", "b", "c", "d", "e", "planner"]
RUN = "/t/acme/review/several/run/"


def chosen(*handoffs: Handoff) -> list[str]:
    return [f"{handoff.pk}:{handoff.version}" for handoff in handoffs]


def states_of(*handoffs: Handoff) -> list[str]:
    return [Handoff.objects.get(pk=handoff.pk).state for handoff in handoffs]


def hidden(page: Any, address: str) -> dict[str, list[str]]:
    """Return the hidden fields that a browser without JavaScript sends with a form."""
    fields: dict[str, list[str]] = {}
    for name, value in hidden_fields(only(page, f'form[action="{address}"]')):
        fields.setdefault(name, []).append(value)
    return fields


def test_what_will_happen_is_said_before_and_nothing_happens_yet(
    sign_in: SignIn, reviewer: Person, submit: Submit, circular: Handoff
) -> None:
    held, alone = submit(call_chain=LONG_CHAIN), submit(target_agent_id="planner")
    page = sign_in(reviewer).post(
        "/t/acme/review/several/", {"select": chosen(held, circular, alone), "decision": "approve"}
    )
    summary = page.context["forecast"]
    assert (summary.number, summary.held, summary.rejected, summary.to_itself) == (3, 1, 2, 1)
    assert {"Approve 2", "Decline all 3"} <= set(texts(page, "button"))
    assert states_of(held, circular, alone) == ["held", "rejected", "rejected"]


def test_those_selected_are_decided_and_the_refused_are_told_with_the_reason(
    sign_in: SignIn, reviewer: Person, submit: Submit
) -> None:
    held, alone = [submit(call_chain=LONG_CHAIN) for _ in range(3)], submit(target_agent_id="planner")
    client = sign_in(reviewer)
    page = client.post("/t/acme/review/several/", {"select": chosen(*held, alone), "decision": "approve"})
    done = client.post(RUN, hidden(page, RUN) | {"decision": "approve", "note": ""})
    summary = done.context["summary"]
    assert (summary.effective, summary.number) == (3, 4)
    assert [(one.number, one.references) for one in summary.refused] == [(1, [str(alone.pk)])]
    assert "be approved. Decline the handoff" in done.text
    assert states_of(*held, alone) == ["approved", "approved", "approved", "rejected"]


@pytest.mark.parametrize(
    ("decision", "words", "states"),
    [
        ("resend", "2 declined, with a request to send again", ["declined", "declined", "rejected"]),
        ("handled", "2 marked as handled", ["rejected", "rejected", "rejected"]),
    ],
)
@pytest.mark.parametrize("is_all", [False, True])
def test_unreadable_ones_among_several_are_asked_for_again_or_marked_as_handled(
    sign_in: SignIn,
    reviewer: Person,
    tenant: Tenant,
    circular: Handoff,
    decision: str,
    words: str,
    states: list[str],
    is_all: bool,
) -> None:
    unreadable = [judged(tenant, b"{"), judged(tenant, b"]")]
    client = sign_in(reviewer)
    if is_all:
        page = client.get("/t/acme/review/several/all/")
    else:
        page = client.post("/t/acme/review/several/", {"select": chosen(*unreadable, circular), "decision": "decline"})
    assert (page.context["forecast"].unreadable, page.context["forecast"].approvable) == (2, 1)
    assert {"Approve 1", "Ask for 2 resends", "Mark 2 as handled"} <= set(texts(page, "button"))
    done = client.post(RUN, hidden(page, RUN) | {"decision": decision, "note": ""})
    assert words in done.text
    assert [(one.number, one.reason) for one in done.context["summary"].refused] == [
        (1, "This handoff is readable. Approve or decline it.")
    ]
    assert states_of(*unreadable, circular) == states
    assert len(client.get("/t/acme/review/").context["queue"].rows) == 1
    undone = client.post("/t/acme/review/several/undo/", hidden(done, "/t/acme/review/several/undo/"))
    assert "2 wait again" in undone.text
    assert len(client.get("/t/acme/review/").context["queue"].rows) == 3


@pytest.mark.parametrize("is_all", [False, True])
def test_what_was_rejected_is_not_approved_without_a_note_and_the_form_stays(
    sign_in: SignIn, reviewer: Person, held: Handoff, circular: Handoff, is_all: bool
) -> None:
    client = sign_in(reviewer)
    if is_all:
        page = client.get("/t/acme/review/several/all/")
    else:
        page = client.post("/t/acme/review/several/", {"select": chosen(held, circular)})
    again = client.post(RUN, hidden(page, RUN) | {"decision": "approve", "note": " "})
    assert again.status_code == 400
    assert 'aria-invalid="true" aria-describedby="confirm-error" autofocus>' in again.text
    assert "Say why you approve rejected handoffs (1)." in again.text
    assert states_of(held, circular) == ["held", "rejected"]
    client.post(RUN, hidden(again, RUN) | {"decision": "approve", "note": "Both are right."})
    assert states_of(held, circular) == ["approved", "approved"]


def test_a_note_for_all_that_is_too_long_is_told_and_kept(sign_in: SignIn, reviewer: Person, held: Handoff) -> None:
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/")
    again = client.post(RUN, hidden(page, RUN) | {"decision": "decline", "note": "n" * 5001})
    assert ("n" * 5001 in again.text, "confirm-error" in again.text) == (True, True)
    assert states_of(held) == ["held"]


def test_what_a_colleague_proposed_with_a_note_is_agreed_to_without_one(
    sign_in: SignIn, reviewer: Person, colleague: Person, tenant: Tenant, circular: Handoff
) -> None:
    row = TypePolicy("message", four_eyes=True)
    kinds.strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="root", note="Two look at messages.")
    decisions.decide_handoff(
        tenant=tenant,
        reference=str(circular.pk),
        decision=Decision.APPROVE,
        note="It is right.",
        actor=Actor.person(colleague),
        seen_version=None,
    )
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/?view=second")
    client.post(RUN, hidden(page, RUN) | {"decision": "approve"})
    assert states_of(circular) == ["approved"]


def test_one_that_was_decided_meanwhile_does_not_spoil_the_others(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, submit: Submit
) -> None:
    first, second = submit(call_chain=LONG_CHAIN), submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    page = client.post("/t/acme/review/several/", {"select": chosen(first, second), "decision": "approve"})
    decisions.decide_handoff(
        tenant=tenant,
        reference=str(first.pk),
        decision=Decision.DECLINE,
        note="",
        actor=Actor.key("another"),
        seen_version=None,
    )
    done = client.post(RUN, hidden(page, RUN) | {"decision": "approve"})
    assert done.context["summary"].effective == 1
    assert "nothing was overwritten" in done.text
    assert states_of(first, second) == ["declined", "approved"]


def test_all_that_match_are_decided_and_nothing_else(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    wanted = [submit(call_chain=LONG_CHAIN, handoff_type="wanted") for _ in range(3)]
    other = submit(call_chain=LONG_CHAIN, handoff_type="other")
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/?type=wanted")
    assert "Decline all 3" in texts(page, "button")
    later = submit(call_chain=LONG_CHAIN, handoff_type="wanted")
    done = client.post(RUN, hidden(page, RUN) | {"decision": "decline"})
    assert done.context["summary"].effective == 3
    assert states_of(*wanted) == ["declined"] * 3
    assert states_of(other, later) == ["held", "held"]


def test_what_grows_old_enough_after_it_was_shown_is_not_decided(
    sign_in: SignIn, reviewer: Person, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    asked_at = timezone.now()
    sent = {"age": "1h", "seen_at": asked_at.isoformat(), "number": "1", "decision": "decline"}
    monkeypatch.setattr(queue.timezone, "now", lambda: asked_at + timedelta(hours=2))
    done = client.post(RUN, sent)
    assert done.context["summary"].visited == 0
    assert states_of(held) == ["held"]


def test_the_search_narrows_what_all_means(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    wanted = submit(call_chain=LONG_CHAIN, handoff_type="wanted")
    other = submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/?q=wanted")
    client.post(RUN, hidden(page, RUN) | {"decision": "decline"})
    assert states_of(wanted, other) == ["declined", "held"]


def test_many_are_decided_in_parts_and_told_as_a_whole(
    sign_in: SignIn, reviewer: Person, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [submit(call_chain=LONG_CHAIN) for _ in range(3)]
    whole = review_bulk.decide_matching
    monkeypatch.setattr(review_bulk, "decide_matching", lambda **given: whole(**given, most=2))
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/")
    first = client.post(RUN, hidden(page, RUN) | {"decision": "decline", "note": "All of them."})
    assert (first.context["summary"].visited, first.context["summary"].number) == (2, 3)
    assert "2 of 3" in first.text
    last = client.post(RUN, hidden(first, RUN))
    assert (last.context["summary"].effective, last.context["next"]) == (3, None)
    assert states_of(*made) == ["declined"] * 3


def test_a_batch_is_taken_back_at_once(sign_in: SignIn, reviewer: Person, submit: Submit) -> None:
    made = [submit(call_chain=LONG_CHAIN) for _ in range(2)]
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/")
    done = client.post(RUN, hidden(page, RUN) | {"decision": "approve"})
    undo = "/t/acme/review/several/undo/"
    back = client.post(undo, hidden(done, undo))
    assert texts(back, 'h2#several-title[tabindex="-1"][autofocus]') == ["2 wait again"]
    assert states_of(*made) == ["held", "held"]


def test_where_two_people_are_needed_several_are_proposed(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, submit: Submit
) -> None:
    row = TypePolicy("message", four_eyes=True)
    kinds.strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="root", note="Two look at messages.")
    held = submit(call_chain=LONG_CHAIN)
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/")
    assert page.context["forecast"].four_eyes == 1
    done = client.post(RUN, hidden(page, RUN) | {"decision": "approve"})
    assert (done.context["summary"].effective, done.context["summary"].proposed) == (0, 1)
    assert "1 wait for a second person" in done.text
    assert states_of(held) == ["held"]


@pytest.mark.parametrize("sent", [{}, {"select": ["x:y"]}, {"select": ["x:1"]}])
def test_an_empty_choice_is_told(sign_in: SignIn, reviewer: Person, held: Handoff, sent: dict[str, Any]) -> None:
    page = sign_in(reviewer).post("/t/acme/review/several/", sent | {"decision": "approve"})
    assert page.status_code == 400
    assert "No handoffs selected" in page.text


def test_too_many_selected_are_told_and_none_is_decided(
    sign_in: SignIn, reviewer: Person, held: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_SELECTED", 1)
    page = sign_in(reviewer).post("/t/acme/review/several/", {"select": chosen(held, held), "decision": "approve"})
    assert "More than 1 are chosen" in page.text
    assert "confirm-note" not in page.text


@pytest.mark.parametrize(
    "sent",
    [
        {"seen_at": "yesterday"},
        {"seen_at": "2026-02-30T00:00:00+00:00"},
        {"seen_at": "0001-01-01T00:00:00+14:00", "age": "7d"},
        {"select": "x:1", "summary": "{"},
        {"select": "x:1", "summary": '{"refused": 1}'},
        {"select": "x:1", "summary": "[]"},
        {"select": "x:1", "summary": '{"number": 1, "effective": "x", "proposed": 0, "refused": [], "undoable": []}'},
        {"select": "x:1", "summary": '{"number": 1, "effective": 0, "proposed": 0, "refused": [], "undoable": 1}'},
    ],
)
def test_a_form_that_cannot_be_read_decides_nothing(
    sign_in: SignIn, reviewer: Person, held: Handoff, sent: dict[str, str]
) -> None:
    page = sign_in(reviewer).post(RUN, sent | {"decision": "decline"})
    assert page.status_code == 400
    assert states_of(held) == ["held"]


@pytest.mark.parametrize("typed", ["", "3", "12", "\x00", "\uff12"])
def test_many_are_decided_only_with_their_number_typed(
    sign_in: SignIn, reviewer: Person, submit: Submit, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr(decide, "MOST_UNTYPED", 1)
    monkeypatch.setattr(bulk, "MOST_UNTYPED", 1)
    held = [submit(call_chain=LONG_CHAIN) for _ in range(2)]
    client = sign_in(reviewer)
    page = client.get("/t/acme/review/several/all/?state=held")
    assert "Type 2 to confirm the number" in page.text
    wanted = hidden(page, RUN) | {"decision": "approve"}
    refused = client.post(RUN, wanted | {"typed": typed})
    assert refused.status_code == 400
    assert "Type 2 to confirm the number; " in refused.text
    assert states_of(*held) == ["held", "held"]
    client.post(RUN, wanted | {"typed": " 2 "})
    assert states_of(*held) == ["approved", "approved"]


def test_a_hundred_at_most_are_decided_without_typing() -> None:
    assert not decide.Forecast(number=100).needs_number
    assert decide.Forecast(number=101).needs_number


def test_refusals_for_many_reasons_are_all_counted() -> None:
    summary = bulk.BulkSummary(number=100)
    for number in range(100):
        summary.add(review_bulk.BulkDecision(refused=[review_bulk.Refusal(f"reason {number}", 1, [])]))
    assert summary.visited == 100
    assert summary.refused[-1] == review_bulk.Refusal(bulk.OTHER_REASONS, 80, [])
