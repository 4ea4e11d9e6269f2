"""Tests of the API of logs: sent, read by a worker, searched."""

import gzip
from collections.abc import Iterator

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import index, upload
from tests.api.support import client, make_key, problem
from tests.diagnostics.logs.support import counted, gate_lines, health_line

TRACE = (
    b'{"trace_id":"t","timestamp":"2026-02-15T04:00:00Z","event":"error","level":"warn","details":{"agent":"a"},"x":1}'
    b"\n"
)


@pytest.fixture
def other(other_tenant: Tenant) -> Iterator[httpx.Client]:
    with client(make_key(other_tenant, "ingest", "read")) as opened:
        yield opened


def test_a_log_is_stored_then_read(api: httpx.Client, tenant: Tenant) -> None:
    data = gate_lines(1, 3) + b"broken\n" + health_line(9)
    sent = api.post("/logs", params={"source": "a.log"}, content=data, headers={"Content-Type": "text/plain"})
    assert sent.status_code == 202
    taken = sent.json()
    assert {name: taken[name] for name in ("source", "size", "lines", "known")} == {
        "source": "a.log",
        "size": len(data),
        "lines": 5,
        "known": 0,
    }
    assert sent.headers["Location"] == taken["links"]["self"]
    link = f"/logs/imports/{taken['id']}"
    before = api.get(link).json()
    assert (before["read"], before["finished_at"]) == (0, None)
    assert before["received_at"]
    index.drain()
    after = api.get(link).json()
    assert (after["read"], after["bad"], after["kinds"]) == (4, 1, {"gate": 3, "health": 1})
    assert after["finished_at"]
    [bad] = after["bad_lines"]
    assert (bad["number"], bad["text"]) == (4, "broken")
    assert "Expected" in bad["why"]
    assert [one["id"] for one in api.get("/logs/imports").json()["items"]] == [taken["id"]]


def test_a_request_sent_again_counts_nothing(api: httpx.Client, tenant: Tenant) -> None:
    for known in (0, 500):
        sent = api.post("/logs", params={"source": "a.log"}, content=gate_lines(1, 500))
        assert sent.json()["known"] == known
    index.drain()
    assert counted(tenant) == {"gate": 500}


def test_a_packed_log_is_unpacked(api: httpx.Client) -> None:
    packed = gzip.compress(gate_lines(1, 3)) + gzip.compress(gate_lines(4, 5))
    for told in ({"Content-Encoding": "gzip"}, {}):
        sent = api.post("/logs", params={"source": "a.log"}, content=packed, headers=told)
        assert sent.json()["lines"] == 5
    assert sent.json()["known"] == 5


def test_lines_are_found_with_what_they_say(api: httpx.Client) -> None:
    api.post("/logs", params={"source": "a.log"}, content=gate_lines(1, 3) + health_line(9) + TRACE)
    index.drain()
    page = api.get("/logs", params={"limit": 2}).json()
    first, second = page["items"]
    assert (first["kind"], first["number"], first["at"]) == ("trace", 5, "2026-02-15T04:00:00.000Z")
    assert first["fields"] == {
        "trace_id": "t",
        "event_type": "error",
        "level": "warn",
        "details": {"agent": "a"},
        "x": 1,
    }
    assert second["fields"]["reason"] == "file_missing"
    rest = api.get("/logs", params={"cursor": page["next"]}).json()
    assert [line["number"] for line in rest["items"]] == [3, 2, 1]
    assert rest["next"] is None
    for asked, numbers in (
        ({"kind": "health"}, [4]),
        ({"event": "file_missing"}, [4]),
        ({"agent": "gate", "text": "LINE 2"}, [2]),
        ({"level": "warning"}, [5]),
        ({"trace": "r9"}, [4]),
        ({"since": "2026-02-15T00:00:02Z", "until": "2026-02-15T00:00:09Z"}, [3, 2]),
        ({"source": "b.log"}, []),
    ):
        found = api.get("/logs", params=asked).json()["items"]
        assert [line["number"] for line in found] == numbers


def test_details_that_are_too_deep_to_be_written_are_cut(api: httpx.Client) -> None:
    deep = b"[" * 300 + b"]" * 300
    api.post("/logs", params={"source": "a.log"}, content=TRACE.replace(b'{"agent":"a"}', deep))
    index.drain()
    [line] = api.get("/logs").json()["items"]
    assert (line["kind"], line["text"].count("["), str(line["fields"]["details"]).count("[")) == ("trace", 300, 64)


def test_nobody_else_sees_them(api: httpx.Client, other: httpx.Client) -> None:
    taken = api.post("/logs", params={"source": "a.log"}, content=gate_lines(1, 3)).json()
    index.drain()
    problem(other.get(f"/logs/imports/{taken['id']}"), 404)
    assert other.get("/logs/imports").json()["items"] == []
    assert other.get("/logs").json()["items"] == []
    assert other.post("/logs", params={"source": "a.log"}, content=gate_lines(1, 3)).json()["known"] == 0


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"kind": "gates"}, "kind"),
        ({"cursor": "x"}, "cursor"),
        ({"since": "yesterday"}, "since"),
        ({"agents": "a"}, "agents"),
    ],
)
def test_a_filter_that_can_not_be_read_is_refused(api: httpx.Client, asked: dict[str, str], field: str) -> None:
    assert problem(api.get("/logs", params=asked), 400)["field"] == field


def test_an_unknown_parameter_of_an_import_is_refused(api: httpx.Client) -> None:
    taken = api.post("/logs", params={"source": "gates"}, content=b"a line").json()
    refused = problem(api.get(f"/logs/imports/{taken['id']}", params={"curser": "x"}), 400)
    assert (refused["field"], "did you mean cursor?" in refused["detail"]) == ("curser", True)


def test_a_large_log_is_taken_in_and_stored_by_a_worker(api: httpx.Client, tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(upload, "INLINE_LINES", 100)
    data = gate_lines(1, 500)
    sent = api.post("/logs", params={"source": "a.log"}, content=data)
    assert sent.status_code == 202
    taken = sent.json()
    assert (taken["size"], taken["stored"], taken["lines"]) == (len(data), 0, 0)
    link = f"/logs/imports/{taken['id']}"
    before = api.get(link).json()
    assert (before["stored"], before["finished_at"]) == (0, None)
    assert before["received_at"]
    upload.drain()
    stored = api.get(link).json()
    assert (stored["stored"], stored["lines"], stored["read"]) == (len(data), 500, 0)
    index.drain()
    assert api.get(link).json()["finished_at"]
    assert counted(tenant) == {"gate": 500}


def test_a_body_that_unpacks_to_far_more_is_refused(api: httpx.Client, monkeypatch) -> None:
    monkeypatch.setattr(upload, "FREE_BYTES", 100_000)
    monkeypatch.setattr(upload, "INLINE_LINES", 100)
    said = problem(api.post("/logs", params={"source": "a"}, content=gzip.compress(b"x\n" * 200_000)), 413)
    assert said["limit"] == 100
    assert "unpacks to more than 100 times its size" in said["detail"]
    assert "HANDOFFAUDIT_MAX_LOG_RATIO" in said["detail"]
    assert api.get("/logs/imports").json()["items"] == []


def test_what_can_not_be_taken_is_refused(api: httpx.Client, settings) -> None:
    settings.MAX_BATCH_BYTES = 10_000
    problem(api.post("/logs", content=b"x"), 422)
    problem(api.post("/logs", params={"source": "a\x00"}, content=b"x"), 400)
    problem(api.post("/logs", params={"source": "a"}, content=b"x" * 10_001), 413)
    zipped = {"Content-Encoding": "gzip"}
    assert problem(api.post("/logs", params={"source": "a"}, content=gzip.compress(b"x" * 10_001), headers=zipped), 413)
    problem(api.post("/logs", params={"source": "a"}, content=gzip.compress(b"x" * 999)[:-5], headers=zipped), 400)
    problem(api.post("/logs", params={"source": "a"}, content=b"no gzip", headers=zipped), 400)
    problem(api.post("/logs", params={"source": "a"}, content=b"x", headers={"Content-Encoding": "br"}), 415)
    documented = api.get("/openapi.json").json()["paths"]["/api/v1/logs"]["post"]["responses"]
    assert {"400", "413", "415"} <= documented.keys()
    assert api.get("/logs/imports").json()["items"] == []
