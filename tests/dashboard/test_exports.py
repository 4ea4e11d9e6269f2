"""The list as a file: what the filters show, safe to open, and few at once."""

import csv
import io
from collections.abc import Callable

import orjson
import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import exports
from handoffaudit.dashboard.exports import Parts
from handoffaudit.handoffs.models import Handoff

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


def test_what_is_another_tenants_is_in_no_file(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, submit_to: Submit
) -> None:
    submit_to(other_tenant)
    assert sign_in(viewer).get(EXPORT, {"format": "ndjson"}).getvalue() == b""


@pytest.mark.parametrize("asked", [{}, {"format": "xls"}, {"format": "csv", "state": "lost"}])
def test_what_cannot_be_read_is_told(sign_in: SignIn, viewer: Person, tenant: Tenant, asked: dict[str, str]) -> None:
    assert sign_in(viewer).get(EXPORT, asked).status_code == 400


def test_only_so_many_are_sent_at_once(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    under_way = [client.get(EXPORT, {"format": "csv"}) for _ in range(exports.MOST_AT_ONCE)]
    refused = client.get(EXPORT, {"format": "csv", "state": "held"})
    assert refused["Location"] == "/t/acme/handoffs/?state=held"
    assert "sent already" in client.get(refused["Location"]).text
    for answer in under_way:
        list(answer)
    for _ in range(exports.MOST_AT_ONCE + 1):
        again = client.get(EXPORT, {"format": "csv"})
        assert again.status_code == 200
        list(again)


def test_a_file_that_is_given_up_makes_room() -> None:
    begun = [Parts.begun(iter([b"1", b"2"])) for _ in range(exports.MOST_AT_ONCE)]
    assert Parts.begun(iter([b"1"])) is None
    assert next(begun[0]) == b"1"
    begun[0].close()
    begun[0].close()
    after = Parts.begun(iter([b"1"]))
    assert list(after) == [b"1"]
    assert list(begun[1]) == [b"1", b"2"]


def test_the_menu_says_how_many_it_will_be(
    sign_in: SignIn, viewer: Person, held: Handoff, circular: Handoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in(viewer)
    assert "2 handoffs" in client.get("/t/acme/handoffs/count/").text
    assert "1 handoff" in client.get("/t/acme/handoffs/count/?state=held").text
    assert "will be empty" in client.get("/t/acme/handoffs/count/?state=declined").text
    monkeypatch.setattr(exports, "COUNTED", 1)
    assert "More than 1 handoff" in client.get("/t/acme/handoffs/count/").text
