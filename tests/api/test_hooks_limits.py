"""Tests of the hook operations at their limits: events that are too long, too many, too late or not events at all."""

import json
from typing import Any

import httpx
import pytest
from django.db import connection

from handoffaudit.accounts.models import Tenant
from handoffaudit.api import auth
from handoffaudit.handoffs import long_poll
from handoffaudit.handoffs.models import Handoff, HookEvent, ValidationState
from tests.api.support import client, make_key, problem
from tests.handoffs.hooks.support import (
    after,
    before,
    gist,
    post,
    start,
    stop,
    words,
    worker,
)

pytestmark = pytest.mark.django_db(transaction=True)
ALLOWED = ("NOT_APPLICABLE", False, 0)


@pytest.mark.parametrize("timeout", ["nan", "inf", "-1", "x", "1e99", "", "²"])
def test_a_time_that_is_none(timeout: str, gate: httpx.Client) -> None:
    response = gate.post(f"/hooks/post-tool-use?timeout={timeout}", json=after(), timeout=30)
    assert response.status_code == 200
    assert response.json()["status"] == ("UNKNOWN" if timeout == "-1" else "PASSED")


def test_where_too_many_wait_it_is_answered_at_once(gate: httpx.Client, monkeypatch) -> None:
    monkeypatch.setattr(long_poll, "are_too_many", lambda _: True)
    assert post(gate, after())["status"] == "UNKNOWN"


@pytest.mark.parametrize(
    "sent",
    [
        b"{",
        b"\xff\xfe",
        b'{"hook_event_name": "PostToolUse", "x": "\\ud800"}',
        b'{"hook_event_name": "PostToolUse", "x": NaN}',
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"hook_event_name": "PreToolUse", "tool_input": ' + b"[" * 100 + b"]" * 100 + b"}",
        b"[1, 2]",
        b'"text"',
        b"null",
        b"{}",
        b'{"hook_event_name": 7}',
        b'{"event": 7}',
        b'{"event": {"event": {}}}',
        b'{"source_agent_id": "a", "target_agent_id": "b", "call_chain": [], "data": {}}',
    ],
)
def test_garbage_is_a_finding_and_no_error(sent: bytes, gate: httpx.Client) -> None:
    answer = post(gate, sent)
    assert (gist(answer), words(answer)) == (ALLOWED, {})
    assert answer["reason"]
    handoff = Handoff.objects.get()
    assert str(handoff.pk) == answer["handoff_id"]
    with worker():
        assert gate.get(f"/handoffs/{handoff.pk}", headers={"Prefer": "wait=10"}).json()["state"] == "rejected"


def test_garbage_that_comes_again_with_its_key_is_one_finding(api: httpx.Client) -> None:
    ids = {post(api, b"{", key="k1")["handoff_id"] for _ in range(3)}
    assert (len(ids), Handoff.objects.count()) == (1, 1)


@pytest.mark.parametrize("sent", [b"", b"x" * (1024 * 1024 + 1)])
def test_a_body_that_is_not_taken_is_told(sent: bytes, api: httpx.Client) -> None:
    answer = post(api, sent)
    assert (gist(answer), Handoff.objects.count()) == (ALLOWED, 0)
    assert "bytes" in answer["reason"] or "body" in answer["reason"]


def test_an_event_as_large_as_is_taken(gate: httpx.Client) -> None:
    sent = json.dumps(after(text="x")).encode()
    whole = json.dumps(after(text="x" * (1024 * 1024 - len(sent) + 1))).encode()
    assert len(whole) == 1024 * 1024
    answer = post(gate, whole, timeout=60)
    # It is taken, and is over the token budget of a delegation.
    assert answer["status"] in ("FAILED", "UNKNOWN")
    assert Handoff.objects.count() == 1


@pytest.mark.parametrize(("prompt", "form"), [("List.", "delegation"), ("x" * 500_000, "claude-code")])
def test_a_long_last_message_is_checked(prompt: str, form: str, api: httpx.Client) -> None:
    task = before()
    post(api, task | {"tool_input": task["tool_input"] | {"prompt": prompt}}, timeout=0)
    post(api, start(), timeout=0)
    answer = post(api, stop(text="x" * 600_000), timeout=0)
    assert Handoff.objects.get(pk=answer["handoff_id"]).format == form


@pytest.mark.parametrize("sent", [before(), after(), start(), stop()], ids=lambda sent: sent["hook_event_name"])
def test_any_value_of_any_id_is_answered(sent: dict[str, Any], api: httpx.Client) -> None:
    for field in ("session_id", "tool_use_id", "workflow_id", "agent_id", "agent_type", "tool_name"):
        for value in ("a\0b", "x" * 5000, 7, None, [], {"a": 1}, "/../", "é 💥"):
            assert post(api, sent | {field: value}, timeout=0)["blocked"] is False, (field, value)


def test_only_a_key_that_may_submit(tenant: Tenant) -> None:
    with client(make_key(tenant, "read")) as api:
        problem(api.post("/hooks/post-tool-use", json=after()), 403)
    with client("ha_wrong") as api:
        problem(api.post("/hooks/post-tool-use", json=after()), 401)
    assert Handoff.objects.count() == 0


def test_over_its_rate_a_key_is_heard_without_waiting(
    gate: httpx.Client, tenant: Tenant, settings, monkeypatch
) -> None:
    settings.RATE_PER_MINUTE = 1
    monkeypatch.setattr(auth, "_rate", type(auth._rate)())
    with client(make_key(tenant, "ingest", name="busy")) as api:
        assert post(api, after())["status"] == "PASSED"
        assert post(api, after("toolu_02"))["status"] == "UNKNOWN"
    with client(make_key(tenant, "read", name="reads")) as api:
        problem(api.post("/hooks/post-tool-use", json=after()), 403)
        problem(api.post("/hooks/post-tool-use", json=after()), 429)
    assert Handoff.objects.count() == 2


def test_a_database_that_refuses_is_an_error_so_that_it_is_sent_again(api: httpx.Client) -> None:
    table = HookEvent._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_away"')
    try:
        problem(api.post("/hooks/post-tool-use", json=after()), 500)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER TABLE "{table}_away" RENAME TO "{table}"')
    assert post(api, after(), timeout=0)["status"] == "UNKNOWN"
    assert (Handoff.objects.count(), ValidationState.objects.count()) == (1, 1)
