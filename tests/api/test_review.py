"""Tests of the API of the review queue: order, views, filters, and changes by reviewers meanwhile."""

from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import group_store
from handoffaudit.handoffs.review import activity
from tests.api.support import client, make_key, problem, submitted
from tests.diagnostics.groups.support import found, group
from tests.handoffs.review.support import colleague, decide, pass_on
from tests.handoffs.support import circular, held, judged, payload, set_policy

pytestmark = pytest.mark.django_db


def asked(api: httpx.Client, query: str = "") -> dict[str, Any]:
    answer = api.get(f"/review{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def listed(api: httpx.Client, query: str = "") -> list[str]:
    return [one["id"] for one in asked(api, query)["items"]]


def test_held_comes_oldest_first_then_rejected_newest_first_and_nothing_else(api: httpx.Client) -> None:
    submitted(api, payload())
    rejected = [submitted(api, circular()) for _ in range(2)]
    waiting = [submitted(api, held()) for _ in range(2)]
    assert listed(api) == [*waiting, *reversed(rejected)]
    first = asked(api, "?limit=3")
    assert [one["id"] for one in first["items"]] == [*waiting, rejected[1]]
    assert asked(api, f"?limit=3&cursor={first['next']}") == {"items": asked(api)["items"][3:], "next": None}


def test_what_people_do_with_one_meanwhile_is_told(api: httpx.Client, tenant: Tenant) -> None:
    ada, ben = colleague(tenant, "ada"), colleague(tenant, "ben")
    one = judged(tenant, held())
    (told,) = asked(api)["items"]
    assert (told["held_by"], told["proposal"], told["passed_on"], told["awaits_second"]) == (None, None, None, False)
    activity.hold(one, ada)
    held_by = asked(api)["items"][0]["held_by"]
    assert (held_by["name"], held_by["until"] > told["received_at"]) == ("ada", True)
    pass_on(one, ada, to=ben)
    assert listed(api) == []
    (told,) = asked(api, "?view=passed_on")["items"]
    assert (told["passed_on"]["by"], told["passed_on"]["to"]) == ("ada", "ben")


def test_what_waits_for_a_second_person_is_a_view(api: httpx.Client, tenant: Tenant) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    one, _ = judged(tenant, held()), judged(tenant, held())
    decide(one, colleague(tenant, "ada"))
    (told,) = asked(api, "?view=second")["items"]
    assert (told["id"], told["awaits_second"]) == (str(one.pk), True)
    assert (told["proposal"]["decision"], told["proposal"]["actor"]["name"]) == ("approve", "ada")


def test_what_is_nothing_but_muted_is_left_out_and_has_a_view(api: httpx.Client, tenant: Tenant) -> None:
    muted = found(tenant)
    group_store.mute_group(tenant=tenant, group=group(tenant).pk, until="good", note="known", actor="ada")
    other = judged(tenant, held())
    assert listed(api) == [str(other.pk)]
    assert set(listed(api, "?view=muted")) == {str(one.pk) for one in muted}
    # The number of waiting handoffs of a group includes muted handoffs.
    assert set(listed(api, f"?group={group(tenant).pk}")) == {str(one.pk) for one in muted}


def test_filters_narrow_it_as_they_narrow_the_list_of_handoffs(api: httpx.Client, tenant: Tenant) -> None:
    rejected = found(tenant)
    waits = judged(tenant, held())
    assert listed(api, "?state=held") == [str(waits.pk)]
    assert set(listed(api, "?code=chain.circular")) == {str(one.pk) for one in rejected}
    assert set(listed(api, f"?group={group(tenant).pk}")) == {str(one.pk) for one in rejected}
    assert listed(api, "?source=nobody") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("view=mine", "view"),
        ("state=accepted", "state"),
        ("cursor=nowhere", "cursor"),
        ("cursor=held:x", "cursor"),
        ("stat=held", "stat"),
    ],
)
def test_what_cannot_be_read_is_named(api: httpx.Client, query: str, field: str) -> None:
    submitted(api, held())
    assert problem(api.get(f"/review?{query}"), 400)["field"] == field


def test_another_tenants_queue_is_its_own(api: httpx.Client, other_tenant: Tenant) -> None:
    submitted(api, held())
    assert listed(client(make_key(other_tenant, "read"))) == []
