"""Benchmark of pages for a signed-in person: with few and many handoffs, against an empty view of the server.

If PostgreSQL fills the databases itself, ingest into the full database is compared with ingest into the other one.
"""

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from statistics import median
from urllib.parse import urlencode

from benchmarks import load, places, rig, servers
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.places import Place
from benchmarks.report import Row, number

GROWTH = 1.3
P95 = 100
# The page of a trace with more than 50 handoffs reads and draws all of them.
LONG_TRACE, LONG_P95 = "a trace of 60 handoffs", 300
INGEST_SHARE = 0.85
BATCH, CONNECTIONS = 500, 4
# The options of rows that PostgreSQL makes: a month, with documents for one handoff in twenty.
BY_SERVER = {"days": 30.0, "oldest": 30.0, "every": 20, "waiting": 2_000, "once": True}
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
# Pages below the tenant that need no id.
PLAIN = {
    "overview, 24 hours": "",
    "overview, 30 days": "?period=30d",
    "review": "review/",
    "review, searched by code": "review/?q=chain.circular",
    "findings": "groups/",
    "overturned, 30 days": "diagnostics/noise/?period=30d",
    "a rule code, 30 days": "diagnostics/codes/chain.circular/?period=30d",
    "agents, 30 days": "agents/?period=30d",
    "agents, 30 days, by rate": "agents/?period=30d&sort=accepted",
    "agents, the map": "agents/?period=30d&show=map",
    "agents, the matrix": "agents/?period=30d&show=matrix",
    "one agent, 30 days": "agents/agent-10/?period=30d",
    "declared routes": "declared/",
    "roles": "roles/",
    "traces": "traces/",
    "traces, the oldest first": "traces/?sort=oldest",
    "traces, the latest start first": "traces/?sort=-started",
    "traces, the earliest start first": "traces/?sort=started",
    "compliance, 7 days": "diagnostics/compliance/?period=7d",
    "compliance, 30 days": "diagnostics/compliance/?period=30d",
    "handoff files, 7 days": "diagnostics/?period=7d",
    "handoff files, 30 days": "diagnostics/?period=30d",
    "file reports": "diagnostics/files/",
    "logs": "diagnostics/logs/",
    "strictness": "strictness/",
    "rules": "rules/",
    "schemas": "schemas/",
    "prompts": "prompts/",
    "versions of policies": "policies/history/",
    "cases": "cases/",
    "people": "settings/",
    "API keys": "settings/keys/",
    "webhooks": "settings/webhooks/",
    "alerts": "diagnostics/alerts/",
    "LLM": "diagnostics/model/",
    "retention": "settings/retention/",
    "audit log": "settings/audit/",
    "preferences": "preferences/",
    "connect": "connect/",
    "search": "search/?q=agent-1",
    "help": "help/",
    "help, a guide": "help/guide/commands/",
    "help, rule codes": "help/codes/",
    "help, problems": "help/problems/",
    "help, API": "help/api/",
}
# With few handoffs, these pages show less than a full page or sum less than a full sample. The growth of their times
# therefore has no goal.
SPARSE = {
    "list by source and target",
    "list by a rare code",
    "list by rare code and state",
    "list by code and type",
    "agents, 30 days",
    "agents, 30 days, by rate",
    "one agent, 30 days",
    "findings",
    "traces, the oldest first",
    "traces, the latest start first",
}


@dataclass(slots=True)
class Filled:
    """A product filled with rows, and its pages; `times` are milliseconds by page."""

    pages: dict[str, tuple[str, ...]]
    cookie: str
    key: str
    times: dict[str, list[float]] = field(default_factory=dict)


def pages(options: Options) -> Iterator[Row]:
    if "postgresql" in options.databases:
        kept = options.filled and f"{options.filled}_few"
        yield from _compared(places.postgresql("few", kept), places.postgresql("many", options.filled), options)
    if "sqlite" in options.databases and not options.by_server:
        yield from _compared(places.sqlite(), places.sqlite(), options)


def _compared(
    few_at: "AbstractContextManager[Place]", many_at: "AbstractContextManager[Place]", options: Options
) -> Iterator[Row]:
    with few_at as few_place, many_at as many_place:
        pairs = zip((few_place, many_place), options.rows, strict=True)
        few, many = (_fill(place, rows, options) for place, rows in pairs)
        with (
            servers.product(few_place) as few_web,
            servers.product(many_place) as many_web,
            servers.floor(few_place) as bare,
        ):
            for _ in range(options.page_rounds):
                _measure(few, few_web.port, options)
                _measure(many, many_web.port, options)
            empty = load.send(_gets(bare.port, ("/empty",), "", options.requests)).only(200)
            verdicts = _judge((few, many), (few_web.port, many_web.port), options)
            rates = _ingest((few, many), (few_web.port, many_web.port), options) if options.by_server else None
        yield from _rows(few_place.name, few, many, empty.percentile(0.5), options.rows)
    yield _verdict_row(few_place.name, *verdicts, options.rows)
    if rates:
        yield _ingest_row(*rates, options.rows)


def _judge(filled: tuple[Filled, Filled], ports: tuple[int, int], options: Options) -> tuple[list[float], list[float]]:
    """Return the milliseconds from a submission to its verdict in both databases, in ascending order.

    The web process judges each handoff itself. No worker runs.
    """
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(options.page_rounds):
        for which, port in enumerate(ports):
            headers = (("Authorization", f"Bearer {filled[which].key}"), ("Prefer", "wait=10"))
            one = Load(port, "/api/v1/handoffs", headers=headers, connections=1, seconds=60.0, most=3)
            load.send(one).only(200)
            most = max(5, options.requests // options.page_rounds)
            found[which].extend(load.send(replace(one, most=most)).only(200).latencies)
    return sorted(found[0]), sorted(found[1])


def _verdict_row(database: str, few: list[float], many: list[float], sizes: tuple[int, int]) -> Row:
    growth = _at(many, 0.5) / _at(few, 0.5)
    return Row(
        what=f"POST to verdict, one at a time, {database}, {number(sizes[1])} handoffs",
        figure=f"p50 {_at(many, 0.5):.1f}, p95 {_at(many, 0.95):.1f} ms",
        floor=f"{number(sizes[0])}: p50 {_at(few, 0.5):.1f}, p95 {_at(few, 0.95):.1f} ms",
        ratio=f"{growth:.2f}",
        goal=f"≤ {GROWTH}",
        met=growth <= GROWTH,
    )


def _ingest(filled: tuple[Filled, Filled], ports: tuple[int, int], options: Options) -> tuple[float, float]:
    """Return handoffs per second in batches into both databases, measured in turn without workers."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(options.rounds):
        for which, port in enumerate(ports):
            headers = (("Authorization", f"Bearer {filled[which].key}"),)
            one = Load(port, "/api/v1/handoffs/batch", headers=headers, connections=CONNECTIONS, batch=BATCH)
            found[which].append(load.send(replace(one, seconds=options.seconds)).only(200).per_second)
    return median(found[0]), median(found[1])


def _ingest_row(few: float, many: float, sizes: tuple[int, int]) -> Row:
    return Row(
        what=f"batches of {BATCH}, PostgreSQL, {number(sizes[1])} handoffs",
        figure=f"{number(many)}/s",
        floor=f"{number(sizes[0])}: {number(few)}/s",
        ratio=f"{many / few:.2f}",
        goal=f"≥ {INGEST_SHARE:g}",
        met=many / few >= INGEST_SHARE,
    )


def _fill(place: Place, rows: int, options: Options) -> Filled:
    rig.migrate(place)
    if options.by_server:
        rig.ask(place, "fill_by_server", rows=rows, **BY_SERVER)
    filled = rig.ask(place, "fill", rows=rows)
    base = "/t/default"
    found: dict[str, tuple[str, ...]] = {
        name: (f"{base}/handoffs/?{urlencode(query)}",) for name, query in LISTS.items()
    }
    found |= {name: (f"{base}/{path}",) for name, path in PLAIN.items()}
    shown = [pk for pk, _ in filled["shown"]]
    waits = [pk for pk, state in filled["shown"] if state in ("held", "rejected")] or shown
    found |= {
        "list by trace": (f"{base}/handoffs/?{urlencode({'trace': filled['trace']})}",),
        "list, new rows count": tuple(f"{base}/handoffs/new/?after={pk}" for pk in shown),
        "handoff": tuple(f"{base}/handoffs/{pk}/" for pk in shown),
        "review, one open": tuple(f"{base}/review/{pk}/" for pk in waits),
        "one trace": (f"{base}/traces/{filled['trace']}/",),
        LONG_TRACE: (f"{base}/traces/{filled['long_trace']}/",),
    }
    return Filled(found, rig.ask(place, "session"), rig.ask(place, "key"))


def _measure(filled: Filled, port: int, options: Options) -> None:
    names = list(filled.pages)
    # The order is random, so that no page always runs right after the same page.
    random.shuffle(names)
    for name in names:
        most = max(5, options.requests // options.page_rounds)
        try:
            load.send(_gets(port, filled.pages[name], filled.cookie, 3)).only(200)
            sent = load.send(_gets(port, filled.pages[name], filled.cookie, most)).only(200)
        except RuntimeError as error:
            raise RuntimeError(f"{name} ({filled.pages[name][0]}): {error}") from error
        filled.times.setdefault(name, []).extend(sent.latencies)


def _gets(port: int, paths: tuple[str, ...], cookie: str, most: int) -> Load:
    return Load(port, paths=paths, headers=(("Cookie", cookie),), sends=False, connections=1, seconds=60.0, most=most)


def _rows(database: str, few: Filled, many: Filled, empty: float, sizes: tuple[int, int]) -> Iterator[Row]:
    for name in many.pages:
        small, large = (sorted(filled.times[name]) for filled in (few, many))
        growth = _at(large, 0.5) / _at(small, 0.5)
        p95 = _at(large, 0.95)
        most = LONG_P95 if name == LONG_TRACE else P95
        before = f"p50 {_at(small, 0.5):.1f}, p95 {_at(small, 0.95):.1f} ms"
        yield Row(
            what=f"{name}, {database}, {number(sizes[1])} handoffs",
            figure=f"p50 {_at(large, 0.5):.1f}, p95 {p95:.1f} ms",
            floor=f"{number(sizes[0])}: {before}; empty view {empty:.1f} ms",
            ratio=f"{growth:.2f}",
            goal=f"p95 < {most} ms" if name in SPARSE else f"≤ {GROWTH}, p95 < {most} ms",
            met=p95 < most and (name in SPARSE or growth <= GROWTH),
        )


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
