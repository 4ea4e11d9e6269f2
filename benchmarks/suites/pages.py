"""Benchmark of pages for a signed-in person: with few and many handoffs, against an empty view of the server."""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from benchmarks import load, places, rig, servers
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.places import Place
from benchmarks.report import Row, number

GROWTH = 1.3
P95 = 100
ROUNDS = 3
LISTS = {
    "list": {},
    "list by state": {"state": "held"},
    "list by type": {"type": "deal_data"},
    "list by source": {"source": "agent-30"},
    "list by source and target": {"source": "agent-30", "target": "agent-35"},
    "list by a common code": {"code": "consistency.timestamp_not_utc"},
    "list by a rare code": {"code": "integrity.payload_hash_mismatch"},
    "list by code and state": {"code": "consistency.timestamp_not_utc", "state": "superseded"},
    "list by rare code and state": {"code": "integrity.payload_hash_mismatch", "state": "rejected"},
    "list by code and type": {"code": "chain.self_handoff", "type": "review"},
    "list of the last day": {"since": "24h"},
    "list by score": {"quality_max": "0.8"},
    "list of overdue": {"flag": "overdue"},
    "list of shadowed (none)": {"flag": "shadowed"},
}
# With few handoffs these show less than a full page, so that only their own time says something.
SPARSE = {
    "list by source and target",
    "list by a rare code",
    "list by rare code and state",
    "list by code and type",
}


@dataclass(slots=True)
class Filled:
    """A product filled with rows, and its pages; `times` are milliseconds by page."""

    pages: dict[str, tuple[str, ...]]
    cookie: str
    times: dict[str, list[float]] = field(default_factory=dict)


def pages(options: Options) -> Iterator[Row]:
    if "postgresql" in options.databases:
        yield from _compared(places.postgresql("few"), places.postgresql("many"), options)
    if "sqlite" in options.databases:
        yield from _compared(places.sqlite(), places.sqlite(), options)


def _compared(
    few_at: "AbstractContextManager[Place]", many_at: "AbstractContextManager[Place]", options: Options
) -> Iterator[Row]:
    with few_at as few_place, many_at as many_place:
        few, many = (_fill(place, rows) for place, rows in zip((few_place, many_place), options.rows, strict=True))
        with (
            servers.product(few_place) as few_web,
            servers.product(many_place) as many_web,
            servers.floor(few_place) as bare,
        ):
            for _ in range(ROUNDS):
                _measure(few, few_web.port, options.requests)
                _measure(many, many_web.port, options.requests)
            empty = load.send(_gets(bare.port, ("/empty",), "", options.requests)).only(200)
        yield from _rows(few_place.name, few, many, empty.percentile(0.5), options.rows)


def _fill(place: Place, rows: int) -> Filled:
    rig.migrate(place)
    filled = rig.ask(place, "fill", rows=rows)
    base = "/t/default"
    found = {name: (f"{base}/handoffs/?{urlencode(query)}",) for name, query in LISTS.items()}
    shown = [pk for pk, _ in filled["shown"]]
    waits = [pk for pk, state in filled["shown"] if state in ("held", "rejected")] or shown
    found |= {
        "list by trace": (f"{base}/handoffs/?{urlencode({'trace': filled['trace']})}",),
        "list, new rows count": tuple(f"{base}/handoffs/new/?after={pk}" for pk in shown),
        "overview, 24 hours": (f"{base}/",),
        "overview, 30 days": (f"{base}/?period=30d",),
        "handoff": tuple(f"{base}/handoffs/{pk}/" for pk in shown),
        "review": (f"{base}/review/",),
        "review, searched by code": (f"{base}/review/?q=chain.circular",),
        "review, one open": tuple(f"{base}/review/{pk}/" for pk in waits),
    }
    return Filled(found, rig.ask(place, "session"))


def _measure(filled: Filled, port: int, requests: int) -> None:
    names = list(filled.pages)
    # No page always runs right after the same other one.
    random.shuffle(names)
    for name in names:
        load.send(_gets(port, filled.pages[name], filled.cookie, 3)).only(200)
        sent = load.send(_gets(port, filled.pages[name], filled.cookie, max(5, requests // ROUNDS)))
        filled.times.setdefault(name, []).extend(sent.only(200).latencies)


def _gets(port: int, paths: tuple[str, ...], cookie: str, most: int) -> Load:
    return Load(port, paths=paths, headers=(("Cookie", cookie),), sends=False, connections=1, seconds=60.0, most=most)


def _rows(database: str, few: Filled, many: Filled, empty: float, sizes: tuple[int, int]) -> Iterator[Row]:
    for name in many.pages:
        small, large = (sorted(filled.times[name]) for filled in (few, many))
        growth = _at(large, 0.5) / _at(small, 0.5)
        p95 = _at(large, 0.95)
        before = f"p50 {_at(small, 0.5):.1f}, p95 {_at(small, 0.95):.1f} ms"
        yield Row(
            what=f"{name}, {database}, {number(sizes[1])} handoffs",
            figure=f"p50 {_at(large, 0.5):.1f}, p95 {p95:.1f} ms",
            floor=f"{number(sizes[0])}: {before}; empty view {empty:.1f} ms",
            ratio=f"{growth:.2f}",
            goal=f"p95 < {P95} ms" if name in SPARSE else f"≤ {GROWTH}, p95 < {P95} ms",
            met=p95 < P95 and (name in SPARSE or growth <= GROWTH),
        )


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
