"""Tests of the API of finding groups: the list, its filters, one group, muting and unmuting."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.api.groups import Until
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.group_store import UNTIL
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupRoute
from handoffaudit.validation.layers.chain import CIRCULAR
from tests.api.support import client, make_key, problem
from tests.diagnostics.groups.support import found, group
from tests.handoffs.support import held, judged

pytestmark = pytest.mark.django_db


def listed(tenant: Tenant, query: str = "") -> list[str]:
    return [one["code"] for one in client(make_key(tenant, "read")).get(f"/groups{query}").json()["items"]]


def test_a_group_says_what_where_how_often_and_what_waits(tenant: Tenant) -> None:
    found(tenant, 2)
    one = group(tenant)
    (told,) = client(make_key(tenant, "read")).get("/groups").json()["items"]
    assert (told["id"], told["code"], told["title"]) == (one.pk, "chain.circular", CIRCULAR.title)
    assert (told["path"], told["more_routes"]) == ("target_agent_id", False)
    assert told["routes"] == [{"source_agent_id": "researcher", "target_agent_id": "planner", "handoffs": 2}]
    assert (told["handoffs"], told["waiting"], told["signs"]) == (2, 2, ["new"])
    assert told["last_days"] == [*[0] * 13, 2]
    assert (told["muted"], told["regressed_at"]) == (None, None)
    assert told["links"]["handoffs"] == f"/api/v1/groups/{one.pk}/handoffs"


def test_the_filters_are_those_of_the_page(tenant: Tenant) -> None:
    found(tenant)
    judged(tenant, held())
    attribution.run()
    now, day = timezone.now(), timedelta(days=1)
    long_chain = FindingGroup.objects.exclude(code="chain.circular").get()
    FindingGroup.objects.filter(pk=long_chain.pk).update(
        regressed_at=now, first_seen=now - 9 * day, last_seen=now - 8 * day
    )
    FindingGroupRoute.objects.filter(group=long_chain).update(target_agent_id="critic")
    assert listed(tenant) == [long_chain.code, "chain.circular"]
    assert listed(tenant, "?status=regressed") == [long_chain.code]
    assert listed(tenant, "?since=7d") == ["chain.circular"]
    assert listed(tenant, f"?until={(now - day).date()}") == [long_chain.code]
    assert listed(tenant, "?code=chain.circular&source=researcher&target=planner") == ["chain.circular"]
    assert listed(tenant, "?source=planner") == []
    assert listed(tenant, "?agent=critic") == [long_chain.code]
    assert listed(tenant, "?status=muted") == []


@pytest.mark.parametrize("query", ["status=closed", "sort=oldest", "since=soon", "cursor=x", "stat=open", "code=%00"])
def test_a_filter_that_cannot_be_read_is_told(tenant: Tenant, query: str) -> None:
    problem(client(make_key(tenant, "read")).get(f"/groups?{query}"), 400)


def test_the_list_goes_on_where_the_page_before_ended(tenant: Tenant) -> None:
    found(tenant)
    judged(tenant, held())
    attribution.run()
    api = client(make_key(tenant, "read"))
    first = api.get("/groups?limit=1").json()
    second = api.get(f"/groups?limit=1&cursor={first['next']}").json()
    assert len({one["id"] for one in first["items"] + second["items"]}) == 2
    assert second["next"] is None
    problem(api.get("/groups?limit=201"), 422)


def test_one_has_its_trend_and_its_handoffs(tenant: Tenant) -> None:
    handoffs = found(tenant, 3)
    api = client(make_key(tenant, "read"))
    told = api.get(f"/groups/{group(tenant).pk}").json()
    assert len(told["trend"]) == 30
    assert told["trend"][-1] == {"day": timezone.now().date().isoformat(), "handoffs": 3}
    page = api.get(f"{told['links']['handoffs'].removeprefix('/api/v1')}?limit=2").json()
    rest = api.get(f"/groups/{told['id']}/handoffs?cursor={page['next']}").json()
    assert [one["id"] for one in page["items"] + rest["items"]] == [str(one.pk) for one in handoffs[::-1]]
    assert api.get(f"/handoffs?group={told['id']}&state=held").json()["items"] == []


@pytest.mark.parametrize("path", ["/groups/99", "/groups/99/handoffs", "/groups/999999999999"])
def test_one_that_is_not_there_is_not_found(tenant: Tenant, path: str) -> None:
    problem(client(make_key(tenant, "read")).get(path), 404)


@pytest.mark.parametrize("number", ["0", "x", "9" * 30])
def test_what_is_no_number_of_a_group_is_refused(tenant: Tenant, number: str) -> None:
    problem(client(make_key(tenant, "read")).get(f"/groups/{number}"), 422)


def test_it_is_muted_with_a_note_and_unmuted(tenant: Tenant) -> None:
    found(tenant)
    pk = group(tenant).pk
    api = client(make_key(tenant, "review", name="bot"))
    told = api.post(f"/groups/{pk}/mute", json={"until": "double", "note": "Known."}).json()
    assert (told["muted"]["until"], told["muted"]["note"], told["muted"]["by"]) == (2, "Known.", "key bot")
    assert told["signs"] == ["muted", "new"]
    assert api.post(f"/groups/{pk}/mute", json={"note": "Known."}).json()["muted"]["until"] == 11
    assert api.post(f"/groups/{pk}/unmute").json()["muted"] is None
    actions = AuditEntry.objects.filter(tenant=tenant, actor="key bot").order_by("number")
    assert list(actions.values_list("action", flat=True)) == ["group.mute", "group.mute", "group.unmute"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"note": " "}, "note"),
        ({"note": "x" * 1001}, "note"),
        ({}, "note"),
        ({"note": "so", "until": "later"}, "until"),
    ],
)
def test_a_mute_that_cannot_be_is_refused_and_changes_nothing(tenant: Tenant, body: dict[str, str], field: str) -> None:
    found(tenant)
    answer = client(make_key(tenant, "review")).post(f"/groups/{group(tenant).pk}/mute", json=body)
    assert field in problem(answer, 422)["detail"].lower()
    assert group(tenant).muted_at is None


def test_it_may_be_muted_as_the_page_does() -> None:
    assert {one.value for one in Until} == set(UNTIL)


def test_a_misspelt_field_of_a_mute_is_refused_and_mutes_nothing(tenant: Tenant) -> None:
    found(tenant)
    refused = client(make_key(tenant, "review")).post(
        f"/groups/{group(tenant).pk}/mute", json={"note": "known", "untill": "good"}
    )
    assert problem(refused, 422)["errors"][0]["field"] == "untill"
    assert not group(tenant).muted_at
