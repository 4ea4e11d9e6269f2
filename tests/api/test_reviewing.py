"""Tests of decisions by API: one call for each step, and the events of the decision."""

from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.api.review import EXAMPLES
from tests.api.support import client, make_key, problem, submitted
from tests.handoffs.review.support import colleague
from tests.handoffs.support import circular, held, set_policy

pytestmark = pytest.mark.django_db
UNREADABLE = ("resend", "handled")
SENDER = {"kind": "key", "name": "sender"}


def review(api: httpx.Client, pk: str, decision: str, **more: Any) -> httpx.Response:
    return api.post(f"/handoffs/{pk}/review", json={"decision": decision, "note": "seen"} | more)


def test_a_decision_is_taken_back_and_made_again(api: httpx.Client) -> None:
    pk = submitted(api, circular())
    approved = review(api, pk, "approve").json()
    reopened = review(api, pk, "reopen", note="another order", seen_version=approved["version"])
    assert reopened.status_code == 200, reopened.text
    assert (reopened.json()["state"], reopened.json()["user_approved"]) == ("rejected", False)
    assert review(api, pk, "decline").json()["state"] == "declined"
    events = api.get(f"/handoffs/{pk}/events").json()["items"]
    assert [(one["to_state"], one["reason"]) for one in events[-3:]] == [
        ("approved", "seen"),
        ("rejected", "another order"),
        ("declined", "seen"),
    ]


def test_what_cannot_be_reopened_is_said(api: httpx.Client) -> None:
    pk = submitted(api, held())
    assert "only approved and declined" in problem(review(api, pk, "reopen"), 409)["detail"]
    decided = review(api, pk, "approve").json()
    assert problem(review(api, pk, "reopen", note=" "), 422)["field"] == "note"
    stale = problem(review(api, pk, "reopen", seen_version=decided["version"] - 1), 409)
    assert (stale["title"], stale["state"], stale["version"]) == ("Version conflict", "approved", decided["version"])
    assert api.get(f"/handoffs/{pk}").json()["state"] == "approved"


def test_one_is_passed_on_and_says_to_whom(api: httpx.Client, tenant: Tenant) -> None:
    colleague(tenant, "Ada")
    pk = submitted(api, held())
    assert api.get(f"/handoffs/{pk}").json()["passed_on"] is None
    answered = review(api, pk, "pass_on", note="you know them", to="ada").json()
    shown = api.get(f"/handoffs/{pk}").json()
    for one in (answered, shown):
        assert one["state"] == "held"
        told = one["passed_on"]
        assert (told["by"], told["to"], told["note"]) == ("sender", "Ada", "you know them")
        assert told["at"] >= one["judged_at"]
    review(api, pk, "approve")
    assert api.get(f"/handoffs/{pk}").json()["passed_on"] is None


def test_it_can_be_passed_to_nobody_in_particular(api: httpx.Client) -> None:
    pk = submitted(api, held())
    assert review(api, pk, "pass_on").json()["passed_on"]["to"] is None


def test_who_cannot_decide_gets_nothing(api: httpx.Client, viewer: Person, stranger: Person) -> None:
    pk = submitted(api, held())
    for name in (viewer.username, stranger.username, "nobody"):
        refused = problem(review(api, pk, "pass_on", to=name), 422)
        assert (refused["title"], refused["field"]) == ("No reviewer", "to")
        assert name in refused["detail"]
    assert problem(review(api, pk, "pass_on", note=""), 422)["field"] == "note"
    assert api.get(f"/handoffs/{pk}").json()["passed_on"] is None


def test_a_first_decision_of_two_awaits_a_second(api: httpx.Client, tenant: Tenant) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    pk = submitted(api, held())
    proposed = review(api, pk, "approve").json()
    shown = api.get(f"/handoffs/{pk}").json()
    for one in (proposed, shown):
        assert (one["state"], one["awaits_second"], one["version"]) == ("held", True, 3)
        assert {name: one["proposal"][name] for name in ("decision", "note", "actor")} == {
            "decision": "approve",
            "note": "seen",
            "actor": SENDER,
        }
    assert review(api, pk, "approve").json()["awaits_second"] is True
    with client(make_key(tenant, "review", name="other")) as other:
        decided = review(other, pk, "approve").json()
    assert (decided["state"], decided["awaits_second"], decided["proposal"]) == ("approved", False, None)


def test_what_could_not_be_read_is_not_approved_and_its_sender_is_told_to_send_again(api: httpx.Client) -> None:
    pk = api.post("/handoffs", content=b"{").json()["id"]
    refused = problem(review(api, pk, "approve"), 409)
    assert "Decline the handoff, ask for a resend, or mark the handoff as handled." in refused["detail"]
    assert review(api, pk, "handled").json()["passed_on"]["note"] == "Marked as handled: seen"
    declined = review(api, pk, "resend").json()
    assert declined["state"] == "declined"
    told = api.get(f"/handoffs/{pk}").json()
    assert told["verdict"]["recommended_action"] == "retry"
    last = api.get(f"/handoffs/{pk}/events").json()["items"][-1]
    assert last["reason"] == "Please send it again: what arrived could not be read. seen"


def test_a_batch_repeats_that_an_unreadable_handoff_is_asked_for_again(api: httpx.Client) -> None:
    sent = [{"document": {"foo": 1}, "handoff_id": "h"}]
    pk = api.post("/handoffs/batch", json=sent).json()["items"][0]["id"]
    for decision, action in (("decline", None), ("reopen", None), ("resend", "retry")):
        review(api, pk, decision)
        (item,) = api.post("/handoffs/batch", json=sent, headers={"Prefer": "wait=5"}).json()["items"]
        assert (item["status"], item["verdict"]["recommended_action"]) == (200, action)


def test_lists_say_nothing_of_it(api: httpx.Client) -> None:
    submitted(api, held())
    (listed,) = api.get("/handoffs").json()["items"]
    assert "awaits_second" not in listed


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_documented_examples_are_taken(api: httpx.Client, tenant: Tenant, name: str) -> None:
    colleague(tenant, "ada")
    pk = api.post("/handoffs", content=b"{").json()["id"] if name in UNREADABLE else submitted(api, held())
    if name == "reopen":
        review(api, pk, "approve")
    answered = api.post(f"/handoffs/{pk}/review", json=EXAMPLES[name]["value"])
    assert answered.status_code == 200, answered.text


def test_a_misspelt_field_of_a_decision_is_refused_and_decides_nothing(api: httpx.Client) -> None:
    pk = submitted(api, held())
    refused = problem(review(api, pk, "approve", seen_versoin=1), 422)
    assert refused["errors"][0]["field"] == "seen_versoin"
    assert api.get(f"/handoffs/{pk}").json()["state"] == "held"
