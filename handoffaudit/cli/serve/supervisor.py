"""Supervisor that starts child processes, replaces dead children, and stops all of them together."""

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

# After this time the children are killed. The next worker resumes the work of a killed worker.
STOP_SECONDS = 8.0

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0

STEADY_SECONDS = 10.0

Process = subprocess.Popen[bytes]


@dataclass(slots=True)
class Child:
    """A role and its current process; `pause` is the delay before a dead process is replaced, in seconds."""

    name: str
    arguments: list[str]
    process: Process | None = None
    started: float = 0.0
    start_at: float = 0.0
    pause: float = FIRST_PAUSE

    def start(self) -> None:
        command = [sys.executable, "-m", "handoffaudit.cli.serve.child", self.name, str(os.getpid()), *self.arguments]
        # The child gets its own session, so Ctrl-C reaches only the supervisor, which stops the children in order.
        self.process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        self.started = time.monotonic()


@dataclass(slots=True)
class Supervisor:
    """The supervisor; `tell` receives one line for each event that the user should know."""

    children: list[Child]
    tell: Callable[[str], None]
    stopping: bool = False
    deaths: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def run(self) -> None:
        """Supervise the children until a signal sets `stopping`."""
        while not self.stopping:
            self.look()
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Replace dead children; a child that dies soon after its start is replaced after an increasing pause."""
        now = time.monotonic()
        for child in self.children:
            if child.process is None:
                if now >= child.start_at:
                    child.start()
            elif (code := child.process.poll()) is not None:
                self._bury(child, child.process, code, now)

    def _bury(self, child: Child, process: Process, code: int, now: float) -> None:
        # Processes that the child started must not keep the port or the queue occupied.
        _kill_group(process)
        if now - child.started > STEADY_SECONDS:
            child.pause = FIRST_PAUSE
        self.tell(f"The {child.name} process {process.pid} {_ending(code)}; another starts in {child.pause:g} s.")
        self.deaths[child.name] += 1
        child.process, child.start_at = None, now + child.pause
        child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def stop(self) -> None:
        """Terminate all children, wait for them, and kill the children that do not end in time."""
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
    """Kill the process and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
