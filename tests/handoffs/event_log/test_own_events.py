"""Tests of the product's own events, as lines to read back and as logs."""

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.handoffs import event_log, judge
from handoffaudit.handoffs.hooks import handler
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.logs.lines import BadLine, GateLine, HealthLine, Line, TraceLine
from handoffaudit.validation.logs.reader import read_line
from tests.diagnostics.files.support import AT, GOOD, received, report
from tests.handoffs.hooks.support import FOUND, PROMPT, after, met, not_met, worker
from tests.handoffs.support import NOT_JSON, SENDER, held, payload, submit
from tests.messages_api.scripted import fails
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def events(settings: Any, tmp_path: Path) -> Iterator[Path]:
    settings.EVENTS_FILE = tmp_path / "events.log"
    yield settings.EVENTS_FILE
    event_log._file.cache_clear()


def lines(events: Path) -> list[Line]:
    found = [read_line(line) for line in events.read_text().splitlines()]
    assert not [line for line in found if isinstance(line, BadLine)]
    return found


def traces(events: Path) -> list[TraceLine]:
    return [line for line in lines(events) if isinstance(line, TraceLine)]


def test_a_handoff_leaves_a_line_for_each_step(tenant: Tenant, events: Path) -> None:
    submit(tenant, held(tenant_id="acme", handoff_id="h1"), trace_id="t1", parent_handoff_id="h0")
    judge.drain()
    decisions.decide_handoff(
        tenant=tenant,
        reference="h1",
        decision=Decision.APPROVE,
        note="Checked.",
        actor=Actor.key("ada"),
        seen_version=None,
    )
    arrived, judged, decided = traces(events)
    assert [one.event_type for one in (arrived, judged, decided)] == [
        "handoff_received",
        "handoff_validated",
        "handoff_processed",
    ]
    pk = str(Handoff.objects.get().pk)
    assert {(one.trace_id, one.span_id, one.workflow) for one in traces(events)} == {("t1", pk, "handoffaudit")}
    assert (arrived.details["handoff_id"], arrived.details["sender"]) == ("h1", "sender")
    assert (judged.details["outcome"], bool(judged.details["codes"])) == ("held", True)
    assert judged.duration_ms is not None
    assert (decided.details["outcome"], decided.details["actor"]) == ("approved", {"kind": "key", "name": "ada"})
    assert decided.details["note"] == "Checked."


def test_what_cannot_be_read_is_received_and_rejected(tenant: Tenant, events: Path) -> None:
    submit(tenant, NOT_JSON)
    arrived, judged = traces(events)
    assert (arrived.details["state"], judged.details["outcome"]) == ("rejected", "rejected")
    assert arrived.trace_id == str(Handoff.objects.get().handoff_id)


def test_a_report_is_a_health_line_once(tenant: Tenant, events: Path) -> None:
    for _ in range(2):
        received(tenant, report(GOOD, timestamp=AT))
    found = [line for line in lines(events) if isinstance(line, HealthLine)]
    assert [(line.agent, line.run_id, line.reason) for line in found] == [("planner", "run-17", None)]


def test_an_answer_of_the_gate_is_a_gate_line(tenant: Tenant, events: Path) -> None:
    bash = {"hook_event_name": "PostToolUse", "tool_name": "Bash"}
    handler.handle(tenant, SENDER, orjson.dumps(bash), "", 0)
    handler.handle(tenant, SENDER, b"{", "", 0)
    found = [line for line in lines(events) if isinstance(line, GateLine)]
    assert [(line.event_type, line.component) for line in found] == [("SKIP", "hook-gate")] * 2
    assert found[0].details.startswith("PostToolUse: NOT_APPLICABLE, allow: Bash is not a delegation tool.")
    assert found[1].details.startswith("no event: NOT_APPLICABLE, allow")


def test_the_gate_tells_who_called_what_the_model_took_and_what_it_decided(
    tenant: Tenant, events: Path, model: MessagesServer
) -> None:
    model.script(met(), not_met())
    with worker():
        for call in ("toolu_1", "toolu_2"):
            handler.handle(tenant, SENDER, orjson.dumps(after(call, text=f"{FOUND} {call}")), "", 20)
    found = [line for line in lines(events) if isinstance(line, GateLine)]
    assert [(line.event_type, line.component) for line in found] == [
        ("TRIGGER", "hook-gate"),
        ("INFO", "llm"),
        ("VALIDATION", "hook-gate"),
    ] * 2
    called, asked, allowed, *_, blocked = (line.details for line in found)
    assert called == (
        f"PostToolUse: Agent to bookkeeper, objective {len(PROMPT)} characters, result {len(FOUND) + 8} characters"
    )
    numbers = r"[\d,]+ ms, [\d,]+ tokens in, [\d,]+ tokens out, \d\.\d{4} USD, handoff [0-9a-f-]{36}"
    assert re.fullmatch(rf"objective by claude-haiku-5-5: ok, {numbers}", asked)
    assert allowed.startswith("PostToolUse: PASSED, allow: PASSED with confidence 0.93")
    assert blocked.startswith("PostToolUse: FAILED, block: FAILED with confidence 0.88")


def test_a_call_that_was_not_made_is_told_with_the_reason(tenant: Tenant, events: Path, model: MessagesServer) -> None:
    model.script(*[fails(400)] * 3)
    with worker():
        handler.handle(tenant, SENDER, orjson.dumps(after()), "", 20)
    (told,) = (line for line in lines(events) if isinstance(line, GateLine) and line.component == "llm")
    assert (told.event_type, told.details.startswith("objective by claude-haiku-5-5: refused, ")) == ("ERROR", True)


def no_folder(path: Path) -> None:
    path.parent.rmdir()


def read_only(path: Path) -> None:
    path.touch(mode=0o400)
    path.parent.chmod(0o500)


def full(path: Path) -> None:
    path.symlink_to("/dev/full")


@pytest.mark.parametrize("broken", [no_folder, read_only, full])
def test_an_events_file_that_cannot_be_written_stops_no_handoff(
    tenant: Tenant, settings: Any, tmp_path: Path, model: MessagesServer, broken: Callable[[Path], None]
) -> None:
    settings.EVENTS_FILE = tmp_path / "logs" / "events.log"
    settings.EVENTS_FILE.parent.mkdir()
    broken(settings.EVENTS_FILE)
    model.script(met())
    try:
        with worker():
            answer = handler.handle(tenant, SENDER, orjson.dumps(after()), "", 20)
        assert answer["status"] == "PASSED"
        assert Handoff.objects.get().state == "accepted"
    finally:
        event_log._file.cache_clear()
        if settings.EVENTS_FILE.parent.exists():
            settings.EVENTS_FILE.parent.chmod(0o700)


def test_secrets_are_masked(tenant: Tenant, events: Path) -> None:
    key = "sk-ant-api03-" + "abcDEF123456" * 4
    submit(tenant, payload(tenant_id="acme", handoff_id="h1"), trace_id=f"run {key}")
    received(tenant, report(GOOD, run_id=key, agent=f"password={key}"))
    text = events.read_text()
    assert key not in text
    assert "[masked]" in text
    lines(events)


def test_what_is_rolled_back_is_not_told(tenant: Tenant, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(file_stats, "count_health", fails)
    with pytest.raises(RuntimeError):
        received(tenant, report(GOOD))
    assert not events.exists()


def test_without_a_file_nothing_is_written(tenant: Tenant, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError

    settings.EVENTS_FILE = None
    monkeypatch.setattr(event_log.AppendedFile, "write", fails)
    received(tenant, report(GOOD))
    judge.drain()


def test_a_disk_that_fails_fails_nothing(tenant: Tenant, events: Path) -> None:
    events.mkdir()
    assert received(tenant, report(GOOD)).is_new
    judge.drain()
    events.rmdir()
    received(tenant, report(GOOD, timestamp=AT))
    assert [type(line) for line in lines(events)] == [TraceLine, HealthLine]


def test_reports_decisions_and_rejections_are_logged(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="handoffaudit.events"):
        received(tenant, report(None))
        submit(tenant, payload(tenant_id="acme"))
        judge.drain()
    told = [record.msg for record in caplog.records if record.name == "handoffaudit.events"]
    events = [one["event"] if isinstance(one, dict) else one for one in told]
    assert sorted(events) == ["a handoff file was reported", "a handoff was judged"]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="handoffaudit.events"):
        submit(tenant, payload(tenant_id="acme", handoff_id="h2"))
        judge.drain()
    assert len([record for record in caplog.records if record.name == "handoffaudit.events"]) == 2
