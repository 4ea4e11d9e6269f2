"""The processes of `handoffaudit up`: the supervisor that starts, replaces and stops them, and their entry point.

A child is `python -m handoffaudit.cli.serve.processes ROLE PARENT [HOST PORT]`.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
        module = "handoffaudit.cli.serve.processes"
        command = [sys.executable, "-m", module, self.name, str(os.getpid()), *self.arguments]
        # The child gets its own session, so Ctrl-C reaches only the supervisor, which stops the children in order.
        self.process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        self.started = time.monotonic()

    def kill(self) -> None:
        """Kill the process and all processes that it started, if it runs."""
        if self.process:
            _kill_group(self.process)
            self.process.wait()
            self.process = None


@dataclass(slots=True)
class Supervisor:
    """The supervisor; `tell` receives one line for each event that the user should know."""

    children: list[Child]
    tell: Callable[[str], None]
    stopping: bool = False
    deaths: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        """Start the children that do not run yet."""
        for child in self.children:
            if child.process is None:
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
        self.tell(
            f"The {child.name} process {process.pid} {_describe_exit(code)}; another starts in {child.pause:g} s."
        )
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


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


PARENT_LOOK_SECONDS = 0.5

GRACE_SECONDS = 5.0


def exit_with_parent(parent: int) -> None:
    """End this process soon after its parent process `parent` has ended."""
    threading.Thread(target=_watch_parent, args=(parent,), name="parent-watch", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


PREPARATION_LOCK = "prepare.lock"


@contextlib.contextmanager
def hold_back_web(folder: Path) -> Iterator[None]:
    """Let the web process load its modules, but not open the database, while the caller prepares the data folder."""
    with (folder / PREPARATION_LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load_pages_and_wait() -> None:
    """Load the modules of all pages, then wait until the data folder is prepared."""
    # The preparation reports wrong settings, and its failure ends this process. Otherwise, the next import fails again.
    with contextlib.suppress(Exception):
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")
        django.setup(set_prefix=False)
        import handoffaudit.urls  # noqa: F401
    from handoffaudit.env import data_folder

    with (data_folder() / PREPARATION_LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


# A long poll occupies a thread while it waits, so there are many threads.
WEB_THREADS = 32

WORKER_THREADS = 2


def run_web(host: str, port: int) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.log import LogLevels
    from granian.server import Server

    Server(
        "handoffaudit.wsgi:application",
        address=host,
        port=port,
        interface=Interfaces.WSGI,
        # One process is best: SQLite has only one writer at a time, and waiting between processes is far slower than
        # waiting between threads.
        workers=1,
        blocking_threads=WEB_THREADS,
        http=HTTPModes.http1,
        websockets=False,
        log_level=LogLevels.error,
        workers_kill_timeout=3,
    ).serve(target_loader=load_application)


def load_application(target: str, *_: Any, **__: Any) -> Callable[..., Any]:
    """Load the application in the process that answers requests, a child of the process of `run_web`."""
    exit_with_parent(os.getppid())
    load_pages_and_wait()
    from handoffaudit.wsgi import application

    return application


def run_worker() -> None:
    start_celery("structural", WORKER_THREADS)


def run_asker() -> None:
    """Run the worker that asks the LLM; it mostly waits, and leaves the processor to the other worker."""
    import django
    from django.conf import settings

    import handoffaudit.celery  # noqa: F401 -- names the settings

    django.setup()
    from handoffaudit.handoffs.llm import jobs

    # No other such worker runs, so remaining leases belong to a dead worker. Without this call they would block their
    # work for minutes.
    jobs.end_leases()
    start_celery("semantic", settings.MODEL_CONCURRENCY)


def start_celery(queue: str, threads: int) -> None:
    from handoffaudit.celery import app

    # Celery warns about every worker that runs as root. This worker reads only messages of the product, as JSON.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    app.start(
        [
            *("--quiet", "worker", "--pool", "threads", "--concurrency", str(threads), "--queues", queue),
            *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"),
        ]
    )


def main(arguments: list[str]) -> None:
    role, parent, *place = arguments
    exit_with_parent(int(parent))
    if role == "web":
        run_web(place[0], int(place[1]))
    else:
        {"worker": run_worker, "asker": run_asker}[role]()


if __name__ == "__main__":
    main(sys.argv[1:])
