"""Child processes that are started, replaced when they die, and stopped together."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

LOOK_SECONDS = 0.1

# After this the children are killed; what a worker had in hand is taken up again by the next one.
STOP_SECONDS = 8.0

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0

STEADY_SECONDS = 10.0

Process = subprocess.Popen[bytes]


@dataclass(slots=True)
class Child:
    """One role, and the process that has it now. `pause`: how long after a death the next one is started."""

    name: str
    arguments: list[str]
    process: Process | None = None
    started: float = 0.0
    start_at: float = 0.0
    pause: float = FIRST_PAUSE

    def start(self) -> None:
        command = [sys.executable, "-m", "handoffaudit.cli.serve.child", self.name, str(os.getpid()), *self.arguments]
        # A session of its own: Ctrl-C reaches the supervisor alone, which then stops the children in order.
        self.process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        self.started = time.monotonic()


@dataclass(slots=True)
class Supervisor:
    """`tell` gets one line for each thing that a person should know."""

    children: list[Child]
    tell: Callable[[str], None]
    stopping: bool = False
    deaths: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def run(self) -> None:
        """Until `stopping` is set, by a signal."""
        while not self.stopping:
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Replaces the dead. One that dies young waits longer each time before the next is started."""
        now = time.monotonic()
        for child in self.children:
            if child.process is None:
                if now >= child.start_at:
                    child.start()
            elif (code := child.process.poll()) is not None:
                self._bury(child, child.process, code, now)

    def _bury(self, child: Child, process: Process, code: int, now: float) -> None:
        # What it had started itself must not hold the port or the queue.
        _kill_group(process)
        if now - child.started > STEADY_SECONDS:
            child.pause = FIRST_PAUSE
        self.tell(f"The {child.name} process {process.pid} {_ending(code)}; another starts in {child.pause:g} s.")
        self.deaths[child.name] += 1
        child.process, child.start_at = None, now + child.pause
        child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def stop(self) -> None:
        """Asks all to end, waits, and kills those that don't."""
        running = [(child.name, child.process) for child in self.children if child.process]
        for _, process in running:
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for name, process in running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.tell(f"The {name} process {process.pid} did not end in {STOP_SECONDS:g} s: killed.")
            _kill_group(process)
            process.wait()


def _kill_group(process: Process) -> None:
    """The process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
