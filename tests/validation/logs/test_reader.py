"""Tests of reading log lines of all forms, and of the reasons for bad lines."""

from datetime import UTC, datetime

import pytest

from handoffaudit.validation.formats.file_report import Fallback, Reason, Source
from handoffaudit.validation.logs.lines import BadLine, GateLine, HealthLine, Kind, TraceLine
from handoffaudit.validation.logs.reader import LONGEST_LINE, read_bytes, read_line
from tests.elapsed import BOUNDED, cpu_seconds

AT = datetime(2026, 2, 15, 0, 15, tzinfo=UTC)
HEALTH = "agent=planner phase=plan source=text_fallback reason=schema_invalid timestamp=2026-02-15T00:15:00Z"


def why(text: str) -> str:
    line = read_line(text)
    assert isinstance(line, BadLine)
    assert line.kind is Kind.BAD
    return line.why


def test_a_health_line() -> None:
    assert read_line(HEALTH) == HealthLine(AT, "planner", "plan", Source.TEXT_FALLBACK, Reason.SCHEMA_INVALID)


def test_the_order_of_pairs_does_not_matter_nor_do_pairs_that_nobody_knows() -> None:
    line = read_line(
        'run=r1 timestamp=2026-02-15T00:15:00Z  host=a source=handoff_json iter=3 phase="plan b" agent=a runtime=codex'
    )
    assert line == HealthLine(
        AT, "a", "plan b", Source.HANDOFF_JSON, runtime="codex", iteration="3", run_id="r1", older=False
    )


@pytest.mark.parametrize("written", ["", " reason=", ' reason=""', " reason=none", " reason=null", " reason=-"])
def test_no_reason_in_each_spelling(written: str) -> None:
    line = read_line(f"agent=a phase=p source=handoff_json{written} timestamp=2026-02-15T00:15:00Z")
    assert isinstance(line, HealthLine)
    assert line.reason is None


def test_how_the_fallback_went_may_stand_as_the_reason() -> None:
    line = read_line(HEALTH.replace("schema_invalid", "text_fallback_fail"))
    assert isinstance(line, HealthLine)
    assert (line.reason, line.fallback) == (None, Fallback.FAILED)
    assert read_line(HEALTH.replace("schema_invalid", "TEXT_FALLBACK_FAIL")) == line
    assert read_line(HEALTH.replace("schema_invalid", "text_fallback_fail") + " fallback=text_fallback_fail") == line


def test_a_reason_and_a_fallback_are_read_in_any_case() -> None:
    lower = HEALTH.replace("schema_invalid", "file_missing") + " fallback=text_fallback_ok"
    upper = HEALTH.replace("schema_invalid", "FILE_MISSING") + " fallback=Text_Fallback_OK"
    assert isinstance(read_line(lower), HealthLine)
    assert read_line(upper) == read_line(lower)


@pytest.mark.parametrize(
    ("given", "reason", "fallback"),
    [
        ("reason=text_fallback_fail", Reason.FILE_MISSING, Fallback.FAILED),
        ("reason=TEXT_FALLBACK_OK", Reason.FILE_MISSING, Fallback.OK),
        ("reason=schema_invalid | fallback=text_fallback_fail", Reason.SCHEMA_INVALID, Fallback.FAILED),
        ("reason=none", Reason.FILE_MISSING, None),
        ("reason=gone away", Reason.FILE_MISSING, None),
    ],
)
def test_an_older_health_line_may_give_its_reason(given: str, reason: Reason, fallback: Fallback | None) -> None:
    line = read_line(f"2026-02-15T00:15:00Z | phase=p | agent=a | handoff_json=missing | {given}")
    assert isinstance(line, HealthLine)
    assert (line.kind, line.source, line.reason, line.fallback) == (
        Kind.OLDER,
        Source.TEXT_FALLBACK,
        reason,
        fallback,
    )


@pytest.mark.parametrize(
    ("found", "reason"),
    [("found", None), ("missing", Reason.FILE_MISSING), ("unparsable", Reason.JSON_PARSE_ERROR)],
)
def test_an_older_health_line(found: str, reason: Reason | None) -> None:
    line = read_line(
        f"2026-02-15T00:15:00Z | phase=plan_review | agent=slot_b | runtime=codex | iter=1 | handoff_json={found}"
        " | source=text_fallback"
    )
    assert line == HealthLine(
        AT, "slot_b", "plan_review", Source.TEXT_FALLBACK, reason, runtime="codex", iteration="1", older=True
    )
    assert line.kind is Kind.OLDER


@pytest.mark.parametrize("event", ["VALIDATION", "SKIP", "ERROR", "DEBUG", "TRIGGER", "INFO", "WARNING"])
def test_a_gate_line(event: str) -> None:
    assert read_line(f"[2026-02-15T00:15:00Z] [{event}] [plan_gate] all [3] checks | a=b") == GateLine(
        AT, event, "plan_gate", "all [3] checks | a=b"
    )


def test_warn_is_warning() -> None:
    line = read_line("[2026-02-15T00:15:00Z] [WARN] [g]")
    assert line == GateLine(AT, "WARNING", "g", "")


@pytest.mark.parametrize("name", ["event", "event_type"])
def test_a_trace_line_keeps_what_it_does_not_know(name: str) -> None:
    line = read_line(
        f'{{"trace_id":"t","timestamp":"2026-02-15T00:15:00Z","{name}":"phase_started","workflow":"w","phase":"plan",'
        '"details":{"a":[1]},"duration_ms":3,"span_id":"s","parent_span_id":null,"level":"info","host":"h"}'
    )
    assert line == TraceLine(
        AT, "phase_started", "t", "w", "plan", {"a": [1]}, "info", "s", duration_ms=3, extra={"host": "h"}
    )


@pytest.mark.parametrize(
    "written",
    [
        "2026-02-15T00:15:00Z",
        "2026-02-15 00:15:00Z",
        "2026-02-15T00:15:00",
        "2026-02-15 00:15",
        "2026-02-15T01:15:00+01:00",
        "2026-02-14 19:15:00,000 -0500",
        "2026-02-15T00:15:00.000000000z",
        "2026-02-15 00:15:00 UTC",
        "2026-02-15T02:15:00.0+02",
    ],
)
def test_times_in_each_spelling(written: str) -> None:
    line = read_line(f"[{written}] [INFO] [g] d")
    assert isinstance(line, GateLine)
    assert line.at == AT


def test_a_fraction_is_kept() -> None:
    line = read_line("[2026-02-15 00:15:00,123] [INFO] [g] d")
    assert isinstance(line, GateLine)
    assert line.at == AT.replace(microsecond=123_000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The line is empty."),
        ("Traceback (most recent call last):", 'found "Traceback (most recent call last):".'),
        (HEALTH.replace("schema_invalid", "shema_invalid"), "did you mean schema_invalid?"),
        (HEALTH.replace("text_fallback", "stdout"), 'The source "stdout" is not known; it is one of'),
        (HEALTH.replace("agent=planner ", ""), "A health line needs agent, found phase, source"),
        (HEALTH.replace("00:15", "25:15"), '"2026-02-15T25:15:00Z" is not a valid time.'),
        *(
            (HEALTH.replace("2026-02", f"{year}-02"), f'Expected a year from 1970 to 9000, found "{year}-02-')
            for year in ("0001", "1969", "9001", "9999")
        ),
        (HEALTH.replace("2026-02-15T", "yesterday:"), 'found "yesterday:00:15:00Z".'),
        (HEALTH + " agent=other", "The key agent= occurs twice."),
        (HEALTH + ' run="7', 'Expected key=value pairs, found "run="7".'),
        ("2026-02-15T00:15:00Z | phase=a | agent=b | handoff_json=lost", 'The handoff_json "lost" is not known'),
        (
            "2026-02-15T00:15:00Z | phase=a | agent=b",
            "A health line in the older form needs handoff_json, found",
        ),
        ("2026-02-15T00:15:00Z | phase", 'Expected key=value between the |, found "phase".'),
        ("[2026-02-15T00:15:00Z] [VALIDATON] [g] d", "did you mean VALIDATION?"),
        ("[2026-02-15T00:15:00Z] INFO g", "Expected [TIME] [EVENT] [COMPONENT] DETAILS"),
        ('{"trace_id":"t","timestamp":"2026-02-15T00:15:00Z","event":"phase_start"}', "did you mean phase_started?"),
        ('{"trace_id":"t","timestamp":"2026-02-15T00:15:00Z"}', "A trace line needs event_type"),
        (
            '{"event":"error","timestamp":"2026-02-15T00:15:00Z"}',
            "The trace_id must be a text, but is missing.",
        ),
        ('{"event":"error","trace_id":"t","timestamp":1771114500}', "The timestamp must be a text"),
        ('{"event":"error","trace_id":"t"', "Expected a JSON object, but the line is not valid JSON"),
        (
            '{"event":"error","trace_id":"t","timestamp":"2026-02-15T00:15:00Z","duration_ms":-1}',
            "The duration_ms must be a number of at least 0, but is -1.",
        ),
        (
            '{"event":"error","trace_id":"t","timestamp":"2026-02-15T00:15:00Z","phase":{}}',
            "The phase must be a text, but is an object.",
        ),
    ],
)
def test_a_bad_line_says_why(text: str, said: str) -> None:
    assert said in why(text)


def test_bytes_that_are_no_text_are_bad() -> None:
    line = read_bytes(b"agent=\xff\xfe phase=p")
    assert line == BadLine("Expected UTF-8, found ff fe 20 70 at byte 7.")


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be"])
def test_each_line_of_a_log_in_utf_16_says_what_to_do(coding: str) -> None:
    text = "agent=a phase=p source=handoff_json timestamp=2026-02-15T00:15:00Z\r\n" * 2
    for line in filter(None, text.encode(coding).split(b"\n")):
        assert read_bytes(line) == BadLine("The line is in UTF-16: save the log as UTF-8, and send it again.")


def test_a_line_that_is_too_long_is_bad() -> None:
    line = read_bytes(b"x" * LONGEST_LINE)
    assert isinstance(line, BadLine)
    assert line.why.startswith("The line has 65,536 bytes or more")


@pytest.mark.parametrize(
    "text",
    [
        'agent="' + '\\"' * 30_000,
        "agent=" + '"' * 60_000,
        "a=b " * 16_000,
        "[" * 65_000,
        "[2026-02-15T00:15:00Z] [INFO] " + "[" * 60_000,
        '{"a":' * 10_000,
        '{"trace_id":' + "[" * 60_000,
        "2026-02-15" + "x" * 60_000,
        "2026-02-15 |" + " |" * 30_000,
        '{"event":"' + "phase_" * 10_000 + '"}',
        "agent=a phase=p timestamp=1 source=" + "handoff_" * 7_000,
        "=" * 60_000,
    ],
)
def test_a_hostile_line_is_bad_soon(text: str) -> None:
    def read() -> None:
        assert isinstance(read_line(text), BadLine)

    assert cpu_seconds(read) < BOUNDED
