"""Benchmark of the embedded server's memory: after its start, and after many handoffs."""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load, places, rig, servers, watching
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.report import Row, number
from benchmarks.watching import WAITING

GOAL_MB = 350
BATCH = 500
DRAIN_SECONDS = 600.0


def memory(options: Options) -> Iterator[Row]:
    with places.sqlite() as place:
        rig.migrate(place)
        headers = (("Authorization", f"Bearer {rig.ask(place, 'key')}"),)
        with servers.up(place) as web, watching.database(place) as ask:
            time.sleep(1.0)
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
            most = sum(_peak(pid) for pid in _family(web.pid))
    yield Row(
        f"embedded: supervisor, web and worker after {number(options.handoffs)} handoffs (PSS)",
        f"{found:.0f} MB; sum of peaks {most:.0f} MB",
        f"{fresh:.0f} MB before the first",
        f"{found / fresh:.2f}",
        f"≤ {GOAL_MB} MB",
        found <= GOAL_MB,
    )


def proportional(pid: int) -> float:
    """Return the memory of a process and its descendants in megabytes; shared pages count once."""
    return sum(_field(Path(f"/proc/{one}/smaps_rollup"), "Pss:") for one in _family(pid)) / 1024


def _peak(pid: int) -> float:
    return _field(Path(f"/proc/{pid}/status"), "VmHWM:") / 1024


def _field(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(name)), 0)


def _family(pid: int) -> list[int]:
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [pid, *(one for child in children for one in _family(child))]
