"""Benchmark of the start: from a command to a ready server, or to the end of a short command."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from benchmarks import places, servers
from benchmarks.options import Options
from benchmarks.places import ROOT, Place
from benchmarks.report import Row

UP_GOAL = 5.0
HELP_GOAL = 0.3
MOST_CALLS = 5


def start(options: Options) -> Iterator[Row]:
    with places.sqlite() as place:
        bare = _ready_of_floor(place)
        first, second = _ready(place), _ready(place)
        for what, figure in (("first start", first), ("second start", second)):
            yield Row(
                f"`handoffaudit up`, {what} to ready",
                f"{figure:.2f} s",
                f"{bare:.2f} s (bare view)",
                f"{figure / bare:.1f}",
                f"≤ {UP_GOAL:g} s",
                figure <= UP_GOAL,
            )
        nothing = _command(place, options, "-c", "pass")
        for arguments, goal in ((("--help",), HELP_GOAL), (("key", "list"), 0.0)):
            took = _command(place, options, "-m", "handoffaudit", *arguments)
            yield Row(
                f"`handoffaudit {' '.join(arguments)}`",
                f"{took:.2f} s",
                f"{nothing:.2f} s (Python alone)",
                f"{took / nothing:.1f}",
                f"≤ {goal:g} s" if goal else "",
                took <= goal if goal else None,
            )


def _ready(place: Place) -> float:
    began = time.monotonic()
    with servers.up(place):
        return time.monotonic() - began


def _ready_of_floor(place: Place) -> float:
    began = time.monotonic()
    with servers.floor(place):
        return time.monotonic() - began


def _command(place: Place, options: Options, *arguments: str) -> float:
    took = []
    for _ in range(min(MOST_CALLS, options.calls)):
        began = time.monotonic()
        command = [sys.executable, *arguments]
        subprocess.run(
            command, env=place.environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        took.append(time.monotonic() - began)
    return median(took)
