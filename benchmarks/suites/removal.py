"""Benchmark of removal: how fast old handoffs are removed, how much slower ingest is meanwhile, and a recount."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any, Final

from benchmarks import load, places, rig, servers
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.report import Row, number

LEAVING_GOAL: Final = 20_000
INGEST_SHARE: Final = 0.9
RECOUNT_SECONDS: Final = 60.0
BATCH, CONNECTIONS = 500, 4


def removal(options: Options) -> Iterator[Row]:
    """Measure removal alone and beside ingest with workers, and the recount before it. PostgreSQL only."""
    if "postgresql" not in options.databases:
        return
    rows = options.rows[1]
    with places.postgresql("removal") as place:
        rig.migrate(place)
        rig.ask(place, "fill_by_server", rows=rows)
        counted = rig.ask(place, "timed_recount")
        yield Row(
            what=f"recount of {number(rows)} handoffs, PostgreSQL",
            figure=f"{counted['seconds']:.1f} s, {counted['peak_mb']:.0f} MB",
            floor=f"{number(counted['rows'])} counts, {counted['wrong']} wrong",
            goal=f"< {RECOUNT_SECONDS:g} s",
            met=counted["seconds"] < RECOUNT_SECONDS and not counted["wrong"],
        )
        alone = rig.ask(place, "remove_handoffs", seconds=options.long_seconds)
        yield _leaving("handoffs leave, nothing else runs", alone)
        if alone["removed"] > rows / 2:
            rig.ask(place, "fill_by_server", rows=rows)
        yield from _beside(place, options)


def _leaving(what: str, found: dict[str, Any]) -> Row:
    rate = found["removed"] / found["seconds"]
    goal = f"≥ {number(LEAVING_GOAL)}/s"
    return Row(what=f"{what}, PostgreSQL", figure=f"{number(rate)}/s", goal=goal, met=rate >= LEAVING_GOAL)


def _beside(place: places.Place, options: Options) -> Iterator[Row]:
    """Compare ingest without and with a removal in the same minute, in turns."""
    headers = (("Authorization", f"Bearer {rig.ask(place, 'key')}"),)
    alone, beside, left = [], [], {"removed": 0.0, "seconds": 0.0}
    with servers.product(place) as product, servers.judges(place, 1):
        sent = Load(product.port, "/api/v1/handoffs/batch", headers=headers, connections=CONNECTIONS, batch=BATCH)
        sent = replace(sent, rate=0.0, seconds=options.seconds)
        load.send(replace(sent, seconds=1.0)).only(200)
        for _ in range(options.rounds):
            alone.append(load.send(sent).only(200).per_second)
            found: dict[str, Any] = {}
            worker = threading.Thread(target=lambda found=found: found.update(_remove(place, options.seconds)))
            worker.start()
            beside.append(load.send(sent).only(200).per_second)
            worker.join()
            left = {name: left[name] + found[name] for name in left}
    yield _leaving("handoffs leave beside ingest", left)
    ratio = median(beside) / median(alone)
    yield Row(
        what=f"batches of {BATCH} while handoffs leave, PostgreSQL",
        figure=f"{number(median(beside))}/s",
        floor=f"{number(median(alone))}/s without",
        ratio=f"{ratio:.2f}",
        goal=f"≥ {INGEST_SHARE:g}",
        met=ratio >= INGEST_SHARE,
    )


def _remove(place: places.Place, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = rig.ask(place, "remove_handoffs", seconds=seconds)
    return found
