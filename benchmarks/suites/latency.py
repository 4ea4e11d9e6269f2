"""Benchmark of the time from POST to verdict, with `Prefer: wait` at 50 requests per second.

Each request is timed from the moment at which it was due.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks import load, places, rig, servers
from benchmarks.load import Load, Outcome
from benchmarks.options import Options
from benchmarks.places import Place
from benchmarks.report import Row
from benchmarks.servers import Server

RATE = 50.0
CONNECTIONS = 16
FULL_P50, FULL_P99 = 15, 30
EMBEDDED_P50, EMBEDDED_P99 = 10, 25


def latency(options: Options) -> Iterator[Row]:
    if "postgresql" in options.databases:
        with places.postgresql("latency") as place:
            rig.migrate(place)
            rig.ask(place, "floor_table")
            with servers.floor(place) as bare:
                floor = _sent(options, bare, "/insert", (), 202)
            with servers.product(place) as web, servers.judges(place, 1):
                found = _judged(options, place, web)
            met = found.percentile(0.5) <= FULL_P50 and found.percentile(0.99) <= FULL_P99
            goal = f"p50 ≤ {FULL_P50}, p99 ≤ {FULL_P99} ms"
            yield _row("POST to verdict, PostgreSQL, Celery on Redis", found, floor, goal, met)
    if "sqlite" in options.databases:
        with places.sqlite() as place:
            rig.migrate(place)
            rig.ask(place, "floor_table")
            with servers.floor(place) as bare:
                floor = _sent(options, bare, "/insert", (), 202)
            with servers.up(place) as web:
                found = _judged(options, place, web)
            met = found.percentile(0.5) <= EMBEDDED_P50 and found.percentile(0.99) <= EMBEDDED_P99
            goal = f"p50 ≤ {EMBEDDED_P50}, p99 ≤ {EMBEDDED_P99} ms"
            yield _row("POST to verdict, embedded (`handoffaudit up`)", found, floor, goal, met)


def _judged(options: Options, place: Place, web: Server) -> Outcome:
    headers = (("Authorization", f"Bearer {rig.ask(place, 'key')}"), ("Prefer", "wait=10"))
    return _sent(options, web, "/api/v1/handoffs", headers, 200)


def _sent(options: Options, server: Server, path: str, headers: tuple[tuple[str, str], ...], status: int) -> Outcome:
    """Send the load, and accept only `status`: 200 means that the verdict came, 202 that it did not."""
    sent = Load(server.port, path, headers=headers, connections=CONNECTIONS, rate=RATE)
    load.send(replace(sent, seconds=2.0))
    return load.send(replace(sent, seconds=options.long_seconds)).only(status)


def _row(what: str, found: Outcome, floor: Outcome, goal: str, met: bool) -> Row:
    return Row(
        what=f"{what}, {RATE:g}/s",
        figure=f"p50 {found.percentile(0.5):.1f}, p99 {found.percentile(0.99):.1f} ms",
        floor=f"insert only: p50 {floor.percentile(0.5):.1f}, p99 {floor.percentile(0.99):.1f} ms",
        ratio=f"{found.percentile(0.5) / floor.percentile(0.5):.1f}",
        goal=goal,
        met=met,
    )
