"""Documents for the load: the bundled samples, with new ids for each use."""

import gzip
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "handoffaudit" / "samples"
# The smallest and the largest bare document, and the largest replayed submission, in bytes.
SMALLEST, LARGEST = 2_000, 4_500
LARGEST_SUBMISSION = 8_000


def fresh() -> bytes:
    return os.urandom(16).hex().encode()


@cache
def submissions() -> list[bytes]:
    """Return the sample lines that are payloads with an envelope."""
    texts = [gzip.decompress(path.read_bytes()) for path in sorted(SAMPLES.glob("*.jsonl.gz"))]
    lines = [line for text in texts for line in text.splitlines()]
    return [line for line in lines if b'"trace_id"' in line and json.loads(line).get("format") == "payload"]


@cache
def _halves() -> list[tuple[bytes, bytes]]:
    """Return the bare documents of these sizes, about 3 KB each, split at their id."""
    found = []
    for line in submissions():
        document = json.loads(line)["document"]
        handoff_id = document["handoff_id"].encode()
        raw = json.dumps(document, ensure_ascii=False).encode()
        if SMALLEST <= len(raw) <= LARGEST:
            before, _, after = raw.partition(handoff_id)
            found.append((before, after))
    return found


def bare() -> Iterator[bytes]:
    """Yield payload documents without end."""
    for before, after in cycle(_halves()):
        yield before + fresh() + after


@dataclass(frozen=True, slots=True)
class Trace:
    """The submissions of a trace, split at each id; an integer part is the index of an id."""

    lines: list[list[bytes | int]]
    ids: int

    def replay(self) -> Iterator[bytes]:
        ids = [fresh() for _ in range(self.ids)]
        for line in self.lines:
            yield b"".join(ids[part] if isinstance(part, int) else part for part in line)


@cache
def _traces() -> list[Trace]:
    by_trace: dict[str, list[bytes]] = {}
    for line in submissions():
        if len(line) <= LARGEST_SUBMISSION:
            by_trace.setdefault(json.loads(line)["trace_id"], []).append(line)
    return [_cut(trace_id, lines) for trace_id, lines in by_trace.items()]


def _cut(trace_id: str, lines: list[bytes]) -> Trace:
    names = [trace_id, *(json.loads(line)["document"]["handoff_id"] for line in lines)]
    numbers = {name.encode(): number for number, name in enumerate(names)}
    at = re.compile(b"(" + b"|".join(re.escape(name) for name in numbers) + b")")
    return Trace([[numbers.get(part, part) for part in at.split(line)] for line in lines], len(names))


def replayed() -> Iterator[bytes]:
    """Yield submissions with their traces, parents, steps and context, without end."""
    for trace in cycle(_traces()):
        yield from trace.replay()


# The trace id of the spans, which each use replaces.
_TRACE = b"\xaa" * 16
SPANS_OF_TRACE = 8
_PROMPT = "Who can deliver 40 chairs within a week, at which price, and from where? " * 9


@cache
def _spans() -> bytes:
    """Return the spans of a trace as protobuf, about 1 KB each: an agent hands off to another agent."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    sent = ExportTraceServiceRequest()
    spans = sent.resource_spans.add().scope_spans.add().spans
    for number in range(1, SPANS_OF_TRACE + 1):
        kind = ("invoke_agent", "chat", "execute_tool", "chat")[(number - 1) % 4]
        span = spans.add(trace_id=_TRACE, span_id=number.to_bytes(8, "big"), name=f"{kind} researcher")
        if number > 1:
            span.parent_span_id = (1).to_bytes(8, "big")
        span.start_time_unix_nano = 1_795_379_700_000_000_000 + number * 1_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 900_000
        given = {
            "gen_ai.operation.name": kind,
            "gen_ai.agent.name": "researcher",
            "gen_ai.conversation.id": "",
            "gen_ai.request.model": "claude",
            "gen_ai.input.messages": _PROMPT,
            "gen_ai.tool.name": "transfer_to_writer" if kind == "execute_tool" else "",
            "gen_ai.tool.call.result": "Transferred to writer." if kind == "execute_tool" else "",
            "gen_ai.tool.call.arguments": '{"summary": "Three suppliers deliver within a week."}',
        }
        for key, value in given.items():
            if value:
                span.attributes.add(key=key).value.string_value = value
    return sent.SerializeToString()


def exports(traces: int) -> Iterator[bytes]:
    """Yield exports with this number of traces, without end. Messages of the protocol can be joined as they are."""
    while True:
        yield b"".join(_spans().replace(_TRACE, os.urandom(16)) for _ in range(traces))
