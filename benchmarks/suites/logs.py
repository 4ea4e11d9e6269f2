"""Benchmark of log imports: speed against plain regular expressions, and memory as the log grows."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import log_lines, places, rig
from benchmarks.options import Options
from benchmarks.places import ROOT
from benchmarks.report import Row, number

GOAL = 1 / 3
GROWTH = 10
# The larger of two logs may take this much more memory than the smaller.
MORE_MB = 64


def logs(options: Options) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-logs-") as folder:
        small, large = Path(folder, "small.log"), Path(folder, "large.log")
        log_lines.write(small, options.log_bytes // GROWTH)
        lines = log_lines.write(large, options.log_bytes)
        size = large.stat().st_size
        floors, ours = [], []
        for _ in range(options.rounds):
            floors.append(_plain(large))
            ours.append(_imported(large, lines))
        before = _imported(small)
    floor, took = median(floors), median(one["seconds"] for one in ours)
    ratio = floor / took
    yield Row(
        f"`import-log` of {size / 1e6:,.0f} MB, {number(lines)} lines: stored, read and counted; SQLite",
        f"{number(lines / took)} lines/s",
        f"{number(lines / floor)} lines/s (plain regular expressions)",
        f"{ratio:.2f}",
        f"≥ {GOAL:.2f}",
        ratio >= GOAL,
    )
    peak, first = max(one["peak_mb"] for one in ours), before["peak_mb"]
    yield Row(
        f"peak memory of it (RSS), and of a log a {GROWTH}th as long",
        f"{peak:.0f} MB",
        f"{first:.0f} MB",
        f"{peak / first:.2f}",
        f"≤ {MORE_MB} MB more",
        peak - first <= MORE_MB,
    )


def _plain(path: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.floor.log_patterns", str(path)]
    return float(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


def _imported(path: Path, lines: int | None = None) -> dict[str, Any]:
    with places.sqlite() as place:
        rig.migrate(place)
        done: dict[str, Any] = rig.ask(place, "import_log", path=str(path))
    if lines not in (None, done["counted"]):
        raise ValueError(f"{done['counted']:,} of {lines:,} lines were counted")
    return done
