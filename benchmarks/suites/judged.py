"""Benchmark of judging: handoffs per second that are stored and judged, while the queue must not grow.

The web server and the workers share the machine.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks import places, rig, servers, watching
from benchmarks.load import Load, Running
from benchmarks.options import Options
from benchmarks.report import Row, number
from benchmarks.watching import JUDGED, WAITING

GOAL = 2000
BATCH = 500
CONNECTIONS = 2
# While the capacity is measured, the load pauses if more handoffs than this wait.
MOST_WAITING = 3000
# The mean length of the queue in the first half of the run is compared with the mean in the second half. The queue
# counts as growing if the mean grew by more than this share of the judged handoffs.
GROWTH = 0.02
LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Seen:
    seconds: float
    judged: int
    backlog: list[int]

    @property
    def per_second(self) -> float:
        return self.judged / self.seconds

    @property
    def halves(self) -> tuple[float, float]:
        middle = len(self.backlog) // 2
        first, second = self.backlog[:middle], self.backlog[middle:]
        return sum(first) / max(1, len(first)), sum(second) / max(1, len(second))


def judged(options: Options) -> Iterator[Row]:
    """Measure the capacity with a load that pauses while the queue is long, then check a steady rate."""
    if "postgresql" not in options.databases:
        return
    with places.postgresql("judged") as place:
        rig.migrate(place)
        headers = (("Authorization", f"Bearer {rig.ask(place, 'key')}"),)
        with servers.product(place) as web, servers.judges(place), watching.database(place) as ask:
            sent = Load(
                web.port,
                "/api/v1/handoffs/batch",
                headers=headers,
                connections=CONNECTIONS,
                batch=BATCH,
                replayed=True,
                seconds=options.long_seconds,
            )
            _watch(ask, replace(sent, seconds=3.0), gated=True)
            _drain(ask)
            most = _watch(ask, sent, gated=True)
            _drain(ask)
            rate = min(float(GOAL), 0.9 * most.per_second)
            if not rate:
                # A rate of 0 would mean a load without a rate.
                raise RuntimeError(f"no handoff was judged within {options.long_seconds:g} s: the machine is too busy")
            held = _watch(ask, replace(sent, rate=rate / BATCH), gated=False)
            _drain(ask)
    first, second = held.halves
    grows = second - first > GROWTH * held.judged
    yield Row(
        f"stored and judged, batches of {BATCH}, {servers.JUDGES} workers, as much as goes",
        f"{number(most.per_second)}/s",
        goal=f"≥ {number(GOAL)}/s",
        met=most.per_second >= GOAL,
    )
    yield Row(
        f"the same at a steady {number(rate)}/s: queue in the first and second half",
        f"{number(first)}, {number(second)} waiting",
        goal="does not grow",
        met=not grows,
    )


def _watch(ask: watching.Asked, load: Load, *, gated: bool) -> Seen:
    running = Running(load)
    backlog: list[int] = []
    before = after = 0
    began = ended = 0.0
    until = time.monotonic() + load.seconds
    while not running.done() and time.monotonic() < until:
        waiting = ask(WAITING)
        if gated:
            running.gate.value = int(waiting < MOST_WAITING)
        if waiting and not began:
            began, before = time.monotonic(), ask(JUDGED)
        if began:
            ended, after = time.monotonic(), ask(JUDGED)
            backlog.append(waiting)
        time.sleep(LOOK_SECONDS)
    running.gate.value = 1
    running.result().only(200)
    return Seen(ended - began, after - before, backlog)


def _drain(ask: watching.Asked, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while ask(WAITING):
        if time.monotonic() > until:
            raise TimeoutError(f"{ask(WAITING)} handoffs were not judged within {seconds:g} s")
        time.sleep(LOOK_SECONDS)
