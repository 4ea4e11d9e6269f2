"""Tests that written lines can be read back, whatever they contain."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.formats.file_report import Fallback, Reason, Source
from handoffaudit.validation.logs.lines import (
    GATE_EVENTS,
    TRACE_EVENTS,
    GateLine,
    HealthLine,
    TraceLine,
    write_gate,
    write_health,
    write_trace,
)
from handoffaudit.validation.logs.reader import read_bytes
from tests.scale import examples

AT = datetime(2026, 2, 15, 0, 15, tzinfo=UTC)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2999, 1, 1), timezones=st.just(UTC))
TEXTS = st.text(max_size=40) | st.text('" \\=\n\r\tu0041|]', max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
HEALTH = st.builds(
    HealthLine,
    at=TIMES,
    agent=TEXTS,
    phase=TEXTS,
    source=st.sampled_from(Source),
    reason=st.none() | st.sampled_from(Reason),
    fallback=st.none() | st.sampled_from(Fallback),
    runtime=TEXTS,
    iteration=TEXTS,
    run_id=TEXTS,
)
TRACES = st.builds(
    TraceLine,
    at=TIMES,
    event_type=st.sampled_from(TRACE_EVENTS),
    trace_id=TEXTS.filter(bool),
    workflow=TEXTS,
    phase=TEXTS,
    details=JSON,
    level=TEXTS,
    span_id=TEXTS,
    parent_span_id=TEXTS,
    duration_ms=st.none() | st.floats(0, 1e9),
    extra=st.dictionaries(TEXTS.map(lambda name: f"x_{name}"), JSON, max_size=3),
)
GATES = st.builds(GateLine, at=TIMES, event_type=st.sampled_from(GATE_EVENTS), component=TEXTS, details=TEXTS)


def test_a_health_line_stands_to_the_letter() -> None:
    line = HealthLine(AT, "planner", "plan", Source.TEXT_FALLBACK, Reason.SCHEMA_INVALID)
    assert write_health(line) == (
        "agent=planner phase=plan source=text_fallback reason=schema_invalid timestamp=2026-02-15T00:15:00Z"
    )


def test_what_is_known_beside_it_follows_the_time() -> None:
    line = HealthLine(
        AT, "planner", "plan", Source.TEXT_FALLBACK, Reason.FILE_MISSING, Fallback.OK, "claude code", "2", "run-7"
    )
    assert write_health(line) == (
        "agent=planner phase=plan source=text_fallback reason=file_missing timestamp=2026-02-15T00:15:00Z"
        ' fallback=text_fallback_ok runtime="claude code" iter=2 run=run-7'
    )


def test_a_used_file_has_no_reason() -> None:
    line = HealthLine(AT, "planner", "plan", Source.HANDOFF_JSON)
    assert write_health(line) == "agent=planner phase=plan source=handoff_json timestamp=2026-02-15T00:15:00Z"


def test_a_time_is_written_in_utc() -> None:
    at = datetime(2026, 2, 15, 1, 15, 0, 250_000, tzinfo=timezone(timedelta(hours=1)))
    line = write_gate(GateLine(at, "SKIP", "plan_gate", "not needed"))
    assert line == "[2026-02-15T00:15:00.250000Z] [SKIP] [plan_gate] not needed"


def test_a_trace_line_stands_to_the_letter() -> None:
    line = TraceLine(AT, "error", "t-1", "release", "plan", {"why": "ü"}, "error", "s", "p", 12.5, {"host": "a"})
    assert write_trace(line) == (
        '{"host":"a","trace_id":"t-1","span_id":"s","parent_span_id":"p","timestamp":"2026-02-15T00:15:00Z",'
        '"event_type":"error","level":"error","workflow":"release","phase":"plan","details":{"why":"ü"},'
        '"duration_ms":12.5}'
    )


def test_what_no_text_file_holds_becomes_a_question_mark() -> None:
    written = write_health(HealthLine(AT, "a\ud800b", "p", Source.HANDOFF_JSON))
    assert written.startswith("agent=a?b ")


@settings(max_examples=examples(50))
@given(HEALTH)
def test_each_health_line_can_be_read_back(line: HealthLine) -> None:
    written = write_health(line)
    assert "\n" not in written
    assert read_bytes(written.encode()) == line


@settings(max_examples=examples(50))
@given(TRACES)
def test_each_trace_line_can_be_read_back(line: TraceLine) -> None:
    written = write_trace(line)
    assert "\n" not in written
    assert read_bytes(written.encode()) == line


@settings(max_examples=examples(50))
@given(GATES)
def test_each_gate_line_can_be_read_back_but_for_what_would_break_it(line: GateLine) -> None:
    written = write_gate(line)
    assert "\n" not in written
    read = read_bytes(written.encode())
    assert isinstance(read, GateLine)
    assert (read.at, read.event_type) == (line.at, line.event_type)
    assert write_gate(read) == written
    if line.component.isprintable() and "]" not in line.component:
        assert read.component == line.component.strip()
    if line.details.isprintable():
        assert read.details == line.details.strip()
