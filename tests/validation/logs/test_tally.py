"""Tests that lines summed together and lines read one by one give the same sum."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.logs.lines import Kind, write_gate, write_health, write_trace
from handoffaudit.validation.logs.reader import LONGEST_LINE, read_bytes
from handoffaudit.validation.logs.sums import Counts, Tally
from handoffaudit.validation.logs.tally import tally
from tests.scale import examples
from tests.validation.logs.test_lines import GATES, HEALTH, TRACES

ZONES = st.sampled_from(["", "Z", "z", "+01:00", "-0500", "+05:30", "+02", " UTC", "+24:00", "Q"])
STAMPS = st.builds(
    "{}-{:02}-{:02}{}{:02}:{:02}:{:02}{}{}".format,
    st.sampled_from(["2026", "0001", "1970", "9000", "9999"]),
    st.integers(1, 13),
    st.integers(1, 31),
    st.sampled_from(["T", " ", "t"]),
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(["", ".5", ",250", ".1234567890"]),
    ZONES,
)
SPELT = st.builds(
    str.format,
    st.sampled_from(
        [
            "agent=planner phase=plan source=handoff_json timestamp={}",
            "agent=a phase=plan source=text_fallback reason=file_missing timestamp={} fallback=text_fallback_ok",
            "agent=a phase=p source=text_fallback reason=nonsense timestamp={} run=r1",
            'agent=a phase="p q" source=handoff_json timestamp={} runtime=codex iter=1 run=r1',
            "{} | phase=plan | agent= slot_b  | runtime=codex | iter=1 | handoff_json=missing | source=text_fallback",
            "{} | phase=plan | agent=slot_b | handoff_json=unparsable",
            "{} | phase=plan | agent=slot_b | handoff_json=missing | source=text_fallback | reason=text_fallback_fail",
            "agent=a phase=plan source=text_fallback reason=TEXT_FALLBACK_OK timestamp={}",
            "{} | agent=slot_b | phase=p | handoff_json=found | source=handoff_json",
            "[{}] [WARN] [ gate ] details",
            "[{}] [INFO] [gate]",
            "[{}] [info] [gate] d",
            "[{}] [NEWS] [gate] d",
            '{{"trace_id":"t","timestamp":"{}","event":"error","details":{{"agent":"a","source":["b"]}}}}',
            '{{"trace_id":"t","timestamp":"{}","event_type":"error","level":"WARN","target":"c","duration_ms":1}}',
            '{{"trace_id":"t","timestamp":"{}","event_type":"error","duration_ms":-1}}',
            '{{"trace_id":"t","timestamp":"{}","event_type":"error","duration_ms":1e400}}',
            '{{"trace_id":"t","timestamp":"{}\\n2026-02-15T00:15:00Z","event_type":"error"}}',
            '{{"trace_id":"","timestamp":"{}","event_type":"error"}}',
            '{{"trace_id":"t","timestamp":"{}","event_type":null,"event":"phase_started","phase":"p","x":[1]}}',
            '{{"trace_id":"t","timestamp":"{}","event_type":"","event":"error"}}',
            '{{"trace_id":"t","timestamp":"{}","event":"error"}},{{"trace_id":"t"}}',
            '{{"trace_id":"t","timestamp":"{}","event":"error","details":NaN}}',
            '{{"trace_id":"t","timestamp":"{}","event":"error","details":"\\ud800"}}',
            '{{"trace_id":"t","trace_id":"u","timestamp":"{}","event":"error","agent":{{}}}}',
            "{}",
        ]
    ),
    STAMPS,
)
ODD = st.sampled_from(
    ["", "  ", "{", "[", "a", "agent=", "1", "{}", "[]", "x\ty", "\x00", "\x85", "\u2028", "agent=\u00a0"]
)
LINES = st.lists(
    st.one_of(
        SPELT.map(str.encode),
        HEALTH.map(lambda line: write_health(line).encode()),
        GATES.map(lambda line: write_gate(line).encode()),
        TRACES.map(lambda line: write_trace(line).encode()),
        ODD.map(str.encode),
        st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")),
    ),
    max_size=12,
)


def one_by_one(text: bytes) -> Tally:
    made = Tally()
    for line in text.split(b"\n"):
        if line.removesuffix(b"\r").strip(b" \t\r\n") not in (b"", b"\xef\xbb\xbf"):
            made.add(read_bytes(line.removesuffix(b"\r")))
    for values in (made.agents, made.phases, made.events, made.levels, made.traces, made.runs):
        values.discard("")
    return made


@settings(max_examples=examples(50))
@given(LINES, st.sampled_from([b"\n", b"\r\n"]))
def test_the_sum_is_the_same(lines: list[bytes], end: bytes) -> None:
    text = end.join(lines)
    made, expected = tally(text), one_by_one(text)
    assert made == expected
    assert (made.health, made.lines) == (expected.health, expected.lines)


@settings(max_examples=20)
@given(LINES, LINES)
def test_the_counts_of_several_texts_may_be_one(first: list[bytes], second: list[bytes]) -> None:
    counts = Counts()
    for lines in (first, second):
        tally(b"\n".join(lines), counts)
    whole = one_by_one(b"\n".join([*first, *second]))
    assert (counts.health, counts.lines) == (whole.health, whole.lines)


def test_each_kind_is_counted_with_what_it_names() -> None:
    made = tally(
        b"agent=a phase=p source=text_fallback reason=file_missing timestamp=2026-02-15T10:20:00Z run=r\n"
        b"2026-02-15T11:15:00Z | phase=q | agent=b | handoff_json=found | source=handoff_json\n"
        b"[2026-02-15T12:15:00+01:00] [ERROR] [g] no\n"
        b'{"trace_id":"t","timestamp":"2026-02-15T09:00:59Z","event":"error","details":{"source_agent":"c"}}\n'
        b"\nnothing known\n"
    )
    assert made.kinds == {"health": 1, "older": 1, "gate": 1, "trace": 1, "bad": 1}
    assert (made.agents, made.phases) == ({"a", "b", "g", "c"}, {"p", "q"})
    assert (made.events, made.levels) == ({"file_missing", "ERROR", "error"}, {"error"})
    assert (made.traces, made.runs) == ({"r", "t"}, {"r"})
    at = datetime(2026, 2, 15, tzinfo=UTC)
    assert made.first_at == at.replace(hour=9)
    assert made.last_at == at.replace(hour=11, minute=15, second=59, microsecond=999_999)
    assert made.health == {
        (at.replace(hour=10), "a", "p", "", "text_fallback", "file_missing", ""): 1,
        (at.replace(hour=11), "b", "q", "", "handoff_json", "", ""): 1,
    }
    assert made.lines[at.replace(hour=11), "gate", "ERROR", "error", "g"] == 1


def test_a_line_that_is_too_long_is_bad_among_others() -> None:
    gate = b"[2026-02-15T12:15:00Z] [INFO] [g] "
    made = tally(b"\n".join([gate + b"x", gate + b"y" * LONGEST_LINE, gate + "ü".encode() * 20_000]))
    assert (made.kinds[Kind.GATE.value], made.bad) == (2, 1)
