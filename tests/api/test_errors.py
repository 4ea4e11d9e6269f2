"""Tests that every rejected request gets a problem document."""

import httpx
import pytest
from django.db import OperationalError

from handoffaudit.accounts.models import Tenant
from handoffaudit.api import auth
from handoffaudit.api.auth import RequestRate
from handoffaudit.handoffs import judge, queries
from handoffaudit.wsgi import MAX_FORM_BYTES
from tests.api.support import client, make_key, problem, submitted
from tests.handoffs.support import held, payload, to_itself

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/nothing", "/handoffs/x/nothing", "/handoffs/", "/schemas/", "/%00", "/../x"])
def test_an_unknown_address(api: httpx.Client, path: str) -> None:
    assert "/api/v1/docs" in problem(api.get(path), 404)["detail"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/handoffs", {"GET", "POST"}),
        ("PATCH", "/handoffs/x", {"GET"}),
        ("POST", "/handoffs/x/events", {"GET"}),
        ("GET", "/handoffs/x/review", {"POST"}),
        ("POST", "/strictness", {"GET", "PUT"}),
    ],
)
def test_a_wrong_method_names_those_that_are_right(
    api: httpx.Client, method: str, path: str, allowed: set[str]
) -> None:
    response = api.request(method, path)
    document = problem(response, 405)
    assert set(response.headers["Allow"].replace(" ", "").split(",")) == allowed
    assert method in document["detail"]


def test_a_key_that_is_none_is_told_how_to_send_one() -> None:
    with client("ha_nonsense") as api:
        assert "Authorization: Bearer" in problem(api.get("/handoffs"), 401)["detail"]


def test_over_the_rate_it_is_told_when_to_come_again(tenant: Tenant, settings, monkeypatch) -> None:
    settings.RATE_PER_MINUTE = 3
    # Numbers of keys come again from test to test.
    monkeypatch.setattr(auth, "_rate", RequestRate())
    with client(make_key(tenant, "read")) as api:
        assert [api.get("/handoffs").status_code for _ in range(3)] == [200] * 3
        refused = api.get("/handoffs")
        assert problem(refused, 429)["limit"] == "3/minute"
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    with client(make_key(tenant, "read", name="other")) as other:
        assert other.get("/handoffs").status_code == 200


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("state=maybe", 400, "state"),
        ("since=yesterday", 400, "since"),
        ("quality_min=2", 400, "quality_min"),
        ("flag=x", 400, "flag"),
        ("sate=held", 400, "sate"),
        ("source=%00", 400, "source"),
        ("cursor=x", 400, "cursor"),
        ("limit=0", 422, "limit"),
        ("limit=201", 422, "limit"),
        ("limit=many", 422, "limit"),
    ],
)
def test_a_filter_that_cannot_be_read(api: httpx.Client, query: str, status: int, field: str) -> None:
    document = problem(api.get(f"/handoffs?{query}"), status)
    assert field in document["detail"]
    assert document.get("field") == field or field in document["errors"][0]["field"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"{", 400),
        (b"", 422),
        (b"[" * 5000, 400),
        (b"null", 422),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"decision": "maybe"}', 422),
        (b'{"decision": "approve", "note": 7}', 422),
        (b'{"decision": "approve", "seen_version": "x"}', 422),
        (b'{"decision": "approve", "note": "\\ud800"}', (400, 422)),
        (b'{"decision": "approve", "seen_version": NaN}', (400, 422)),
        (b'{"decision": "approve", "seen_version": 1e400}', (400, 422)),
        (b'\xff{"decision": "approve"}', 400),
    ],
)
def test_a_review_that_cannot_be_read(api: httpx.Client, sent: bytes, status: int | tuple[int, int]) -> None:
    pk = submitted(api, held())
    response = api.post(f"/handoffs/{pk}/review", content=sent)
    assert response.status_code in (status if isinstance(status, tuple) else (status,)), response.text
    problem(response, response.status_code)
    assert api.get(f"/handoffs/{pk}").json()["state"] == "held"


def test_reviews_that_cannot_be_done(api: httpx.Client) -> None:
    own, wait, done = (submitted(api, document) for document in (to_itself(), held(), payload()))

    def review(pk: str, **sent: object) -> httpx.Response:
        return api.post(f"/handoffs/{pk}/review", json=sent)

    assert problem(review(own, decision="approve", note="x"), 409)["title"] == "It can't be decided"
    assert problem(review(done, decision="decline"), 409)["title"] == "It can't be decided"
    assert problem(review(wait, decision="approve", note="x" * 5001), 422)["field"] == "note"
    stale = problem(review(wait, decision="approve", seen_version=1), 409)
    assert (stale["title"], stale["state"], stale["version"]) == ("Version conflict", "held", 2)
    problem(review("nothing", decision="approve"), 404)


def test_every_body_has_a_limit(api: httpx.Client, settings) -> None:
    pk = submitted(api, held())
    settings.MAX_BODY_BYTES = 500
    for method, path in (("POST", f"/handoffs/{pk}/review"), ("PUT", "/strictness"), ("POST", "/handoffs")):
        assert problem(api.request(method, path, content=b" " * 501), 413)["limit"] == 500


def test_our_own_bug_says_nothing_but_an_id(api: httpx.Client, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OperationalError("password=secret at /srv/handoffaudit/x.py")

    monkeypatch.setattr(queries, "list_handoffs", broken)
    document = problem(api.get("/handoffs"), 500)
    assert document["request_id"] in document["detail"]
    assert "secret" not in str(document)


def test_calls_go_by_their_key_and_not_by_the_server_s_name(api: httpx.Client) -> None:
    response = api.get("/handoffs", headers={"Host": "evil.example"})
    assert (response.status_code, "evil.example" in response.text) == (200, False)


@pytest.mark.parametrize("path", ["/docs", "/docs/x"])
def test_a_page_under_a_name_that_is_not_ours_says_so(api: httpx.Client, path: str) -> None:
    told = problem(api.get(path, headers={"Host": "audit.example.com"}), 400)
    assert "'audit.example.com'. Its operator adds the name to HANDOFFAUDIT_ALLOWED_HOSTS" in told["detail"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"handoff_type": "*", "strictness": "hard"}],
        [{"handoff_type": "*", "token_budget": -1}],
        [{"handoff_type": "*", "colour": 1}],
        [{"handoff_type": "*"}, {"handoff_type": "*"}],
        [{"handoff_type": 7}],
        [{}],
        [{"handoff_type": "*"}, {"handoff_type": "\ud800"}],
        [{"handoff_type": "*", "\ud800": 1}],
        [{"handoff_type": "*", "token_budget": 10**400}],
        [{"handoff_type": "*", "confidence_floor": 10**400}],
        [{"handoff_type": "*", "confidence_floor": float("nan")}],
    ],
)
def test_a_table_that_cannot_be_saved(api: httpx.Client, rows: list[dict[str, object]]) -> None:
    import json

    response = api.put("/strictness", content=json.dumps({"base_version": 0, "rows": rows}))
    assert response.status_code in (400, 422), response.text
    problem(response, response.status_code)
    assert api.get("/strictness").json()["version"] == 0


@pytest.mark.parametrize("number", ["1" * 5_000, "1e400", ","], ids=["5,000 digits", "1e400", "no number"])
def test_a_table_that_is_not_json_is_refused_with_the_place(api: httpx.Client, number: str) -> None:
    sent = '{"base_version": 0,\n"rows": [{"handoff_type": "x", "schema": {"maximum": ' + number + "}}]}"
    refused = problem(api.put("/schemas", content=sent), 400)
    assert refused["detail"].startswith("The body can't be read as JSON: line 2, column ")
    assert "1" * 20 not in refused["detail"]


def test_a_table_on_an_old_version(api: httpx.Client) -> None:
    table = api.get("/strictness").json()
    document = problem(api.put("/strictness", json={"base_version": 7, "rows": table["rows"]}), 409)
    assert document["version"] == 0


def test_a_page_reads_no_more_of_a_form_than_a_form_can_have(api: httpx.Client) -> None:
    refused = api.post("http://testserver/sign-in/", content=b"x" * (MAX_FORM_BYTES + 1))
    assert (refused.status_code, f"{MAX_FORM_BYTES:,}" in refused.text) == (413, True)
    assert api.post("http://testserver/sign-in/", content=b"x" * MAX_FORM_BYTES).status_code == 403


HOOK = {"name": "x", "address": "https://hooks.example/", "events": ["verdict"]}


@pytest.mark.parametrize(
    ("method", "path", "sent", "field", "value", "remedy"),
    [
        ("GET", "/handoffs?limit=0", None, "limit", "0", "Send 1 or more."),
        ("GET", "/handoffs?limit=many", None, "limit", "many", "Send a whole number."),
        ("GET", "/handoffs?flag=x", None, "flag", "x", "Use one of"),
        ("DELETE", "/webhooks/x", None, "webhook", "x", "Send a whole number."),
        ("POST", "/webhooks", {"name": "x", "address": "y", "events": []}, "events", "a list of 0 entries", "Choose"),
        ("POST", "/webhooks", {"name": 7, "address": "y", "events": ["verdict"]}, "name", 7, "Send a text."),
        ("POST", "/handoffs/h/review", {"decision": "maybe"}, "decision", "maybe", "Send approve, decline"),
        ("POST", "/handoffs/h/review", {"decision": "approve", "nte": "x"}, "nte", "x", "Leave it out"),
        (
            "POST",
            "/handoffs/h/review",
            {"decision": "approve", "note": "x" * 5001},
            "note",
            "x" * 200 + "…",
            "Use at most",
        ),
        ("POST", "/handoffs/h/review", {"decision": "pass_on", "note": "x", "to": "ada"}, "to", "ada", "Choose"),
        ("POST", "/handoffs/h/review", {"decision": "pass_on", "note": ""}, "note", "", "Write in the note"),
        ("POST", "/handoffs/h/review", {"decision": "pass_on", "note": "x", "to": "a: b"}, "to", "a: b", "Choose a"),
        ("POST", "/webhooks", HOOK | {"kind": "a: b"}, "kind", "a: b", "Choose from"),
        ("POST", "/webhooks", HOOK | {"events": ["a: b"]}, "events", "a list of 1 entry", "Choose from"),
        ("POST", "/webhooks", HOOK | {"address": "https://h/#a:b"}, "address", "https://h/#a:b", "Remove the #"),
        ("POST", "/webhooks", HOOK | {"address": "https://h:a/"}, "address", "https://h:a/", "Write it as https://"),
        ("PUT", "/retention", {"base_version": 0, "rows": 1}, "rows", 1, "Send a list."),
        ("PUT", "/rules", {"sets": []}, "base_version", None, "Add it."),
        ("PUT", "/schemas", {"base_version": 0, "rows": [{}]}, "handoff_type", None, "Write the type"),
        ("PUT", "/agents/declared", {"base_version": 0, "rows": [{"source": 1, "targets": []}]}, "source", 1, "Write"),
    ],
)
def test_a_refused_value_is_told_in_one_form(
    api: httpx.Client, method: str, path: str, sent: object, field: str, value: object, remedy: str
) -> None:
    api.post("/handoffs", json=held(handoff_id="h"))
    judge.drain()
    response = api.request(method, path, json=sent)
    told = problem(response, response.status_code)
    error = next(one for one in told["errors"] if one["field"] == field)
    assert error["value"] == value
    assert error["remedy"].startswith(remedy)
    assert error["message"] not in ("", error["remedy"])
    assert error["remedy"] not in error["message"]
    assert "Input should" not in response.text
    if len(told["errors"]) == 1 and "row" not in error:
        assert [told[name] for name in ("field", "value", "remedy")] == [error["field"], value, error["remedy"]]


def test_of_many_refused_values_the_first_hundred_are_told(api: httpx.Client) -> None:
    sent = {"name": "x", "address": "y", "events": list(range(10_000))}
    assert len(problem(api.post("/webhooks", json=sent), 422)["errors"]) == 100


def test_a_wrong_field_of_the_body_is_named_as_it_was_sent(tenant: Tenant) -> None:
    with client(make_key(tenant, "review")) as api:
        found = problem(api.post("/handoffs/x/review", json={"decision": "maybe"}), 422)
    assert [error["field"] for error in found["errors"]] == ["decision"]
