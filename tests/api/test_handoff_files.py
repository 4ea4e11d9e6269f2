"""Tests of the API of handoff file reports."""

import json
from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs.models import Handoff, State
from tests.api.support import client, make_key, problem
from tests.diagnostics.files.support import AT, BLOCK, GOOD, report

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(tenant: Tenant) -> Any:
    with client(make_key(tenant, "ingest", "read", "admin")) as found:
        yield found


def sent(api: httpx.Client, document: Any, status: int = 201) -> dict[str, Any]:
    response = api.post("/handoff-files", json=document)
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_the_answer_says_what_a_report_amounts_to(api: httpx.Client) -> None:
    document = report(None, elsewhere=["x/handoff.json", "run-17/handoff.json"], response_text="no", timestamp=AT)
    answer = sent(api, document)
    handoff = Handoff.objects.get()
    assert answer["wrong_path"] == "run-17/handoff.json"
    assert (answer["source"], answer["failed"]) == ("text_fallback", True)
    assert answer["reasons"] == ["file_missing", "text_fallback_fail"]
    assert "file_missing" in answer["why"]
    [issue] = answer["issues"]
    assert (issue["code"], issue["path"]) == ("files.handoff_file_missing", "file.exists")
    assert issue["message"]
    assert issue["hint"]
    assert answer["line"].startswith("agent=planner phase=plan source=text_fallback reason=file_missing timestamp=")
    assert (answer["handoff_id"], answer["handoff"]) == (handoff.handoff_id, str(handoff.pk))
    assert httpx.URL(answer["links"]["handoff"]).path.endswith(str(handoff.pk))
    assert answer["links"]["codes"] == "/help/codes/{code}/"
    assert api.get(answer["links"]["self"].removeprefix("/api/v1")).json() == answer


def test_findings_are_answered_as_they_were_stored(api: httpx.Client) -> None:
    answer = sent(api, report(None))
    row = FileReport.objects.get()
    # Another version may have stored other fields.
    FileReport.objects.update(content=row.content.replace('"hint"', '"advice":1,"hint"').replace('"version"', '"at"'))
    shown = api.get(answer["links"]["self"].removeprefix("/api/v1")).json()
    assert (shown["issues"][0]["advice"], shown["policy"]["at"]) == (1, 0)


@pytest.mark.parametrize("member", ["handoff_id", "policy", "why", "issues", "line"])
def test_a_stored_report_without_a_member_is_answered_without_it(api: httpx.Client, member: str) -> None:
    answer = sent(api, report(None))
    stored = json.loads(FileReport.objects.get().content)
    del stored[member]
    FileReport.objects.update(content=json.dumps(stored))
    shown = api.get(answer["links"]["self"].removeprefix("/api/v1")).json()
    assert not shown[member]
    assert {**shown, member: answer[member]} == answer


def test_where_json_breaks(api: httpx.Client) -> None:
    [issue] = sent(api, report('{\n  "status": nope}'))["issues"]
    assert (issue["code"], issue["line"], issue["column"]) == ("structure.json_parse", 2, 13)


def test_the_same_report_again_is_answered_200(api: httpx.Client) -> None:
    document = report(GOOD, timestamp=AT)
    assert sent(api, document, 201) == sent(api, document, 200)
    assert Handoff.objects.count() == 1


def test_an_id_that_is_taken(api: httpx.Client) -> None:
    api.post("/handoffs?handoff_id=mine&format=handoff-file", json=report(GOOD))
    problem(api.post("/handoff-files?handoff_id=mine", json=report(GOOD)), 409)
    problem(api.post("/handoff-files?handoff_id=mine", json=report("{")), 409)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"status": "complete"}', b'{"file": {"exists": 1}}'])
def test_what_is_no_report_is_kept_as_rejected(body: bytes, api: httpx.Client) -> None:
    refused = problem(api.post("/handoff-files", content=body), 422)
    handoff = Handoff.objects.get()
    assert (refused["id"], handoff.state) == (str(handoff.pk), State.REJECTED)
    assert refused["issues"]
    assert bool(handoff.codes)
    assert api.get("/handoff-files").json()["items"] == []


def test_too_large(api: httpx.Client, settings: Any) -> None:
    settings.MAX_BODY_BYTES = 1000
    problem(api.post("/handoff-files", json=report("x" * 1000)), 413)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("", 4),
        ("agent=coder", 1),
        ("phase=review", 1),
        ("runtime=codex", 1),
        ("run=run-18", 1),
        ("reason=file_missing", 2),
        ("reason=text_fallback_ok", 1),
        ("source=handoff_json", 1),
        ("fallback=text_fallback_ok", 1),
        ("failed=yes", 2),
        ("since=2026-02-15T00:15:00Z", 3),
        ("until=2026-02-15T00:15:00Z", 1),
        ("agent=planner&reason=file_missing", 1),
    ],
)
def test_filters(query: str, number: int, api: httpx.Client) -> None:
    sent(api, report(None, agent="coder", runtime="codex", timestamp=AT))
    sent(api, report(None, run_id="run-18", response_text=BLOCK, timestamp="2026-02-15T00:16:00Z"))
    sent(api, report("{", phase="review", timestamp="2026-02-15T00:17:00Z"))
    sent(api, report(GOOD, timestamp="2026-02-14T00:00:00Z"))
    found = api.get(f"/handoff-files?{query}").json()
    assert len(found["items"]) == number
    times = [one["timestamp"] for one in found["items"]]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("query", ["reason=gone", "failed=1", "since=soon", "agnet=x", "cursor=x", "agent=%00"])
def test_bad_filters(query: str, api: httpx.Client) -> None:
    assert problem(api.get(f"/handoff-files?{query}"), 400)["field"] == query.partition("=")[0]


def test_pages_of_the_list(api: httpx.Client) -> None:
    ids = [sent(api, report(GOOD, run_id=f"run-{number}"))["id"] for number in range(5)]
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(f"/handoff-files?limit=2&cursor={cursor}").json()
        found += [one["id"] for one in page["items"]]
        cursor = page["next"]
    assert found == ids[::-1]


def test_the_policy_is_versioned(api: httpx.Client) -> None:
    policy = api.get("/handoff-files/policy").json()
    assert (policy["version"], policy["strict_handoff_files"]) == (0, False)
    change = {"base_version": 0, "strict_handoff_files": True, "note": "Agents are ready."}
    saved = api.put("/handoff-files/policy", json=change).json()
    assert (saved["version"], saved["strict_handoff_files"], saved["note"]) == (1, True, "Agents are ready.")
    assert saved == api.get("/handoff-files/policy").json()
    assert problem(api.put("/handoff-files/policy", json=change), 409)["version"] == 1
    problem(api.put("/handoff-files/policy", json={"base_version": 1, "strict_handoff_files": "perhaps"}), 422)
    assert sent(api, report(None, response_text=BLOCK))["failed"]


def test_another_tenants_reports_do_not_exist(api: httpx.Client, other_tenant: Tenant) -> None:
    pk = sent(api, report(GOOD))["id"]
    with client(make_key(other_tenant, "read")) as other:
        problem(other.get(f"/handoff-files/{pk}"), 404)
        assert other.get("/handoff-files").json()["items"] == []
        assert other.get("/handoff-files/policy").json()["version"] == 0
