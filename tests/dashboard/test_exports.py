"""Tests of exported lists: the filtered rows, safe to open, and few exports at the same time."""

import csv
import io
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import exports
from handoffaudit.dashboard.exports import Parts
from handoffaudit.diagnostics import attribution, group_queries
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import export
from handoffaudit.handoffs.models import Handoff
from tests.diagnostics.groups.support import found
from tests.handoffs.support import held, judged
from tests.pages import text_of

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
EXPORT = "/t/acme/handoffs/export/"


def test_a_file_holds_what_the_filters_show_and_says_so(
    sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff
) -> None:
    answer = sign_in(viewer).get(EXPORT, {"format": "csv", "state": "rejected"})
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="acme-handoffs-state-rejected-2' in answer["Content-Disposition"]
    (row,) = csv.DictReader(io.StringIO(answer.getvalue().decode()))
    assert row["id"] == str(circular.pk)
    assert "chain.circular" in row["codes"].split()
    assert (row["state"], row["source_agent_id"]) == ("rejected", "planner")


def test_programs_get_an_object_a_line_newest_first(
    sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff
) -> None:
    answer = sign_in(viewer).get(EXPORT, {"format": "ndjson"})
    lines = [orjson.loads(line) for line in answer.getvalue().splitlines()]
    assert [line["id"] for line in lines] == [str(circular.pk), str(held.pk)]
    assert "chain.circular" in lines[0]["codes"]


def test_a_file_has_the_order_that_its_menu_says(
    sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff
) -> None:
    client = sign_in(viewer)
    assert "What the filters show, oldest first" in text_of(client.get("/t/acme/handoffs/?sort=oldest"))
    lines = client.get(EXPORT, {"format": "ndjson", "sort": "oldest"}).getvalue().splitlines()
    assert [orjson.loads(line)["id"] for line in lines] == [str(held.pk), str(circular.pk)]


def test_what_is_another_tenants_is_in_no_file(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, submit_to: Submit
) -> None:
    submit_to(other_tenant)
    assert sign_in(viewer).get(EXPORT, {"format": "ndjson"}).getvalue() == b""


@pytest.mark.parametrize("asked", [{}, {"format": "xls"}, {"format": "csv", "state": "lost"}])
def test_what_cannot_be_read_is_told(sign_in: SignIn, viewer: Person, tenant: Tenant, asked: dict[str, str]) -> None:
    assert sign_in(viewer).get(EXPORT, asked).status_code == 400


def test_the_queue_and_findings_are_files_too(
    sign_in: SignIn, viewer: Person, tenant: Tenant, held: Handoff, circular: Handoff, submit: Submit
) -> None:
    """The files hold the rows of the pages in the same order, and more than one page of rows."""
    submit(target_agent_id="planner")
    attribution.run()
    client = sign_in(viewer)

    def lines(address: str, query: str) -> list[dict[str, Any]]:
        answer = client.get(f"{address}export/?format=ndjson{query}")
        assert answer.status_code == 200
        return [orjson.loads(line) for line in answer.getvalue().splitlines()]

    for query in ("", "&code=chain.circular", "&view=mine", "&cursor=rejected:x", "&q=planner"):
        shown = client.get(f"/t/acme/review/?{query[1:]}" if "cursor" not in query else "/t/acme/review/").context
        assert [one["id"] for one in lines("/t/acme/review/", query)] == [
            str(row.handoff.pk) for row in shown["queue"].rows
        ]
    for query in ("", "&sort=most", "&status=muted", "&agent=planner&since=7d"):
        shown = client.get(f"/t/acme/groups/?{query[1:]}").context
        told = [(one.group.pk, one.group.code, one.waiting) for one in shown["lines"]]
        assert [(one["id"], one["code"], one["waiting"]) for one in lines("/t/acme/groups/", query)] == told
    assert (
        'href="/t/acme/review/export/?format=csv&amp;code=chain.circular"'
        in client.get("/t/acme/review/?code=chain.circular").text
    )
    assert 'href="/t/acme/groups/export/?format=ndjson&amp;sort=most"' in client.get("/t/acme/groups/?sort=most").text


def test_more_than_fits_a_page_is_in_the_file(
    sign_in: SignIn, viewer: Person, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PART", 2)
    monkeypatch.setattr(group_queries, "EXPORTED_AT_ONCE", 2)
    judged(tenant, held())
    handoffs = found(tenant, 5)
    client = sign_in(viewer)
    (number,) = FindingGroup.objects.filter(number=5).values_list("pk", flat=True)
    answer = client.get(f"/t/acme/review/export/?format=csv&group={number}")
    assert f'filename="acme-review-group-{number}-2' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    assert [row["id"] for row in rows] == [str(one.pk) for one in reversed(handoffs)]
    answer = client.get("/t/acme/groups/export/?format=csv")
    assert 'filename="acme-findings-2' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    assert sorted(row["handoffs"] for row in rows) == ["1", "5"]
    assert rows[0]["signs"] == "new"


@pytest.mark.parametrize("address", ["review/export/?format=xls", "groups/export/", "groups/export/?format=csv&sort=x"])
def test_what_cannot_be_read_of_others_is_told(sign_in: SignIn, viewer: Person, tenant: Tenant, address: str) -> None:
    assert sign_in(viewer).get(f"/t/acme/{address}").status_code == 400


def test_only_so_many_of_a_person_are_sent_at_once(
    sign_in: SignIn, viewer: Person, reviewer: Person, held: Handoff
) -> None:
    client = sign_in(viewer)
    under_way = [client.get(EXPORT, {"format": "csv"}) for _ in range(exports.MOST_OF_PERSON)]
    refused = client.get(EXPORT, {"format": "csv", "state": "held"})
    assert refused["Location"] == "/t/acme/handoffs/?state=held"
    assert "under way already" in client.get(refused["Location"]).text
    client.force_login(reviewer)
    assert client.get(EXPORT, {"format": "csv"}).getvalue()
    client.force_login(viewer)
    for answer in under_way:
        list(answer)
    for _ in range(exports.MOST_AT_ONCE + 1):
        again = client.get(EXPORT, {"format": "csv"})
        assert again.status_code == 200
        list(again)


def begun(person: int, tenant: int) -> Parts:
    return Parts.begin(person, tenant, iter([b"1", b"2"]))


def test_who_stops_reading_keeps_others_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = [begun(person, 1) for person in (1, 1, 2, 2)]
    for one in stalled:
        assert next(one) == b"1"
    for person, tenant in ((1, 1), (2, 3), (3, 1)):
        with pytest.raises(exports.TooMany):
            begun(person, tenant)
    others = [begun(10 + number, 10 + number) for number in range(exports.MOST_READ - len(stalled))]
    with pytest.raises(exports.TooMany):
        begun(99, 99)
    monkeypatch.setattr(exports, "STALLED_SECONDS", -1.0)
    others += [begun(99, 99)]
    # They go on where they stopped, and none of their own begins before.
    with pytest.raises(exports.TooMany):
        begun(1, 1)
    assert [list(one) for one in stalled] == [[b"2"]] * 4
    assert list(begun(1, 1)) == [b"1", b"2"]
    others += [begun(100 + number, 100 + number) for number in range(exports.MOST_AT_ONCE - len(others))]
    with pytest.raises(exports.TooMany):
        begun(200, 200)


def test_a_file_that_is_given_up_makes_room() -> None:
    first, second = begun(1, 1), begun(1, 1)
    with pytest.raises(exports.TooMany):
        begun(1, 1)
    assert next(first) == b"1"
    first.close()
    first.close()
    assert list(begun(1, 1)) == [b"1", b"2"]
    del second
    never_sent = [begun(1, 1), begun(1, 1)]
    assert [list(one) for one in never_sent] == [[b"1", b"2"]] * 2


def test_the_menu_says_how_many_it_will_be(
    sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in(viewer)
    assert "2 handoffs" in client.get("/t/acme/handoffs/count/").text
    assert "1 handoff" in client.get("/t/acme/handoffs/count/?state=held").text
    assert "will be empty" in client.get("/t/acme/handoffs/count/?state=declined").text
    monkeypatch.setattr(exports, "COUNTED", 1)
    assert "More than 1 handoff" in client.get("/t/acme/handoffs/count/").text
