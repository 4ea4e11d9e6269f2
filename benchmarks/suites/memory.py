"""Benchmark of the embedded server's memory at rest, and after many handoffs.

The figure is the proportional share (PSS) of all processes. A page that several processes share counts once, so the sum
is the memory that the machine loses.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load, places, rig, servers, watching
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.report import Row, number
from benchmarks.watching import WAITING

REST_GOAL_MIB = 250
GOAL_MIB = 350
BATCH = 500
DRAIN_SECONDS = 600.0


def memory(options: Options) -> Iterator[Row]:
    with places.sqlite() as place:
        rig.migrate(place)
        headers = (("Authorization", f"Bearer {rig.ask(place, 'key')}"),)
        with servers.up(place) as web, watching.database(place) as ask:
            _wait_for_worker(web.port)
            fresh = proportional(web.pid)
            batches = Load(
                web.port,
                "/api/v1/handoffs/batch",
                headers=headers,
                connections=2,
                batch=BATCH,
                replayed=True,
                seconds=DRAIN_SECONDS,
                most=options.handoffs // BATCH,
            )
            load.send(batches).only(200)
            until = time.monotonic() + DRAIN_SECONDS
            while ask(WAITING):
                if time.monotonic() > until:
                    raise TimeoutError("the handoffs were not judged in time")
                time.sleep(0.5)
            found = proportional(web.pid)
    yield Row(
        "embedded, at rest: all processes (PSS)",
        f"{fresh:.0f} MiB",
        goal=f"≤ {REST_GOAL_MIB} MiB",
        met=fresh <= REST_GOAL_MIB,
    )
    yield Row(
        f"embedded, after {number(options.handoffs)} handoffs: all processes (PSS)",
        f"{found:.0f} MiB",
        ratio=f"{found / fresh:.2f}",
        goal=f"≤ {GOAL_MIB} MiB",
        met=found <= GOAL_MIB,
    )


def _wait_for_worker(port: int) -> None:
    """Wait until the worker reports that it is ready, because it loads modules until then."""
    until = time.monotonic() + servers.READY_SECONDS
    while time.monotonic() < until:
        with urllib.request.urlopen(f"http://localhost:{port}/readyz") as answer:
            if json.load(answer)["workers"]["worker"] == "ok":
                return time.sleep(1.0)
        time.sleep(0.2)
    raise TimeoutError("no worker was seen in time")


def proportional(pid: int) -> float:
    """Return the memory of a process and its descendants in MiB; shared pages count once."""
    return sum(_field(Path(f"/proc/{one}/smaps_rollup"), "Pss:") for one in _family(pid)) / 1024


def _field(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(name)), 0)


def _family(pid: int) -> list[int]:
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [pid, *(one for child in children for one in _family(child))]
