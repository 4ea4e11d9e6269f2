"""Benchmark of telemetry: acknowledged spans of 1 KB per second, against a view that only COPYs the same bytes.

Each export has 512 spans of 64 traces, as protobuf, and is answered after its commit. No worker runs.
"""

from collections.abc import Iterator

from benchmarks import places
from benchmarks.documents import SPANS_OF_TRACE
from benchmarks.floor.tables import SPANS_OF_EXPORT
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.suites.ingest import alternate, row_of

GOAL, SHARE = 5000, 0.3
CONNECTIONS = 4


def otlp(options: Options) -> Iterator[Row]:
    if "postgresql" not in options.databases:
        return
    sent = Load(
        0,
        "/v1/traces",
        connections=CONNECTIONS,
        seconds=options.seconds,
        telemetry=SPANS_OF_EXPORT // SPANS_OF_TRACE,
    )
    floor = Load(0, "/copy_spans", connections=CONNECTIONS, seconds=options.seconds, telemetry=sent.telemetry)
    with places.postgresql("otlp") as place:
        ours, floors = alternate(place, options, sent, floor, expected=200)
        yield row_of(f"spans in exports of {SPANS_OF_EXPORT}, {place.name}", ours, floors, GOAL, SHARE)
