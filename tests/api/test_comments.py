"""Tests of the API of comments and assignments."""

import httpx
import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Comment
from handoffaudit.handoffs.review import base
from tests.api.support import problem
from tests.handoffs.review.support import colleague
from tests.handoffs.support import held, judged, payload

pytestmark = pytest.mark.django_db


def test_comments_are_added_and_listed(api: httpx.Client, tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    address = f"/handoffs/{handoff.pk}/comments"
    made = api.post(address, json={"text": "Checked with the desk."})
    assert made.status_code == 201
    assert api.post(address, json={"text": "Checked with the desk."}).json()["id"] == made.json()["id"]
    second = api.post(address, json={"text": "Not quite."}).json()
    first_page = api.get(address, params={"limit": 1}).json()
    assert [one["id"] for one in first_page["items"]] == [second["id"]]
    rest = api.get(address, params={"limit": 1, "cursor": first_page["next"]}).json()
    assert rest["items"] == [made.json()]
    assert (rest["next"], rest["items"][0]["actor"]["kind"]) == (None, "key")
    assert api.get(f"/handoffs/{handoff.pk}").json()["version"] == handoff.version


def test_bad_comments_name_the_place_and_the_remedy(api: httpx.Client, tenant: Tenant) -> None:
    address = f"/handoffs/{judged(tenant, payload()).pk}/comments"
    assert problem(api.post(address, json={"text": " "}), 422)["field"] == "text"
    assert "Use at most 5,000" in problem(api.post(address, json={"text": "x" * 5001}), 422)["detail"]
    problem(api.post(address, json={"text": 7}), 422)
    problem(api.get(address, params={"cursor": "x"}), 400)
    problem(api.get(address, params={"limit": 1000}), 422)
    problem(api.get(address, params={"limits": 1}), 400)
    assert not Comment.objects.exists()


def test_a_handoff_is_assigned_to_a_reviewer_and_to_nobody(
    api: httpx.Client, tenant: Tenant, reviewer: Person, viewer: Person
) -> None:
    for document in (payload(), held()):
        handoff = judged(tenant, document)
        address = f"/handoffs/{handoff.pk}/assign"
        given = api.post(address, json={"to": "Reviewer", "note": "Yours.", "seen_version": handoff.version}).json()
        assert (given["passed_on"]["to"], given["passed_on"]["note"]) == ("reviewer", "Yours.")
        problem(api.post(address, json={"to": None, "seen_version": handoff.version}), 409)
        assert problem(api.post(address, json={"to": "viewer"}), 422)["field"] == "to"
        assert api.post(address, json={"to": None}).json()["passed_on"] is None
        assert api.post(address, json={"to": None}).json()["version"] == handoff.version + 2
        problem(api.post(address, json={"to": None, "note": "Done."}), 409)
        problem(api.post(address, json={}), 422)


def test_every_reviewer_is_found(api: httpx.Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST_REVIEWERS", 1)
    for name in ("bo", "zoe"):
        colleague(tenant, name)
    address = f"/handoffs/{judged(tenant, payload()).pk}/assign"
    assert api.post(address, json={"to": "Zoe"}).json()["passed_on"]["to"] == "zoe"
    assert problem(api.post(address, json={"to": "zoe\0"}), 422)["field"] == "to"


def test_the_documented_example_assigns(api: httpx.Client, tenant: Tenant) -> None:
    colleague(tenant, "ada")
    address = f"/handoffs/{judged(tenant, payload()).pk}/assign"
    given = api.post(address, json={"to": "ada", "note": "You know this customer."}).json()
    assert (given["passed_on"]["to"], given["state"]) == ("ada", "accepted")
