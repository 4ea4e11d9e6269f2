"""The processes of `handoffaudit up`: the supervisor that starts, replaces and stops them, and what they run."""

import atexit
import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess as Process
from pathlib import Path
from typing import Any

from handoffaudit.cli.bootstrap import start_django
from handoffaudit.cli.serve.setup import prepare_or_error

LOOK_SECONDS = 0.1

# After this time the children are killed. The next worker resumes the work of a killed worker.
STOP_SECONDS = 8.0

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0

STEADY_SECONDS = 10.0

# A forked child shares the memory of the modules that the supervisor has loaded. On macOS, system libraries may fail in
# a forked process.
START_METHOD = "fork" if sys.platform == "linux" else "spawn"


def list_stop_signals() -> list[signal.Signals]:
    """Return the signals that stop everything. SIGHUP is left out if this process ignores it, as under `nohup`.

    SIGINT is included even if this process ignores it. A shell without job control starts every background program with
    SIGINT ignored, although the user did not ask for that.
    """
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hangup]


def start_process(process: Process) -> None:
    """Start a child, which must call `end_on_signals`. Until that call, stop signals to the child are blocked.

    At first, a forked child has the signal handlers of its parent. These handlers would not end the child, and the
    signal would be lost.
    """
    numbers = list_stop_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def end_on_signals() -> None:
    """Let the stop signals end this process, which `start_process` started."""
    numbers = list_stop_signals()
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


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
        context: Any = multiprocessing.get_context(START_METHOD)
        self.process = context.Process(target=run_role, args=(self.name, os.getpid(), *self.arguments))
        start_process(self.process)
        self.started = time.monotonic()


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
            elif (code := child.process.exitcode) is not None:
                self._bury(child, child.process, code, now)

    def _bury(self, child: Child, process: Process, code: int, now: float) -> None:
        # Processes that the child started must not keep the port or the queue occupied.
        _kill_group(process)
        if now - child.started > STEADY_SECONDS:
            child.pause = FIRST_PAUSE
        self.tell(f"The {child.name} process {process.pid} {describe_exit(code)}; another starts in {child.pause:g} s.")
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
            process.join(max(0.0, until - time.monotonic()))
            if process.exitcode is None:
                self.tell(f"The {name} process {process.pid} did not end in {STOP_SECONDS:g} s: killed.")
            _kill_group(process)
            process.join()


def _kill_group(process: Process) -> None:
    """Kill the process and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    # A process that has just been forked has no group yet.
    process.kill()


def describe_exit(code: int) -> str:
    """Return how a process ended, as a predicate."""
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


def load_django() -> None:
    """Load Django and the models before the first fork. Do not start a thread here.

    Raises `Stop` for wrong settings.
    """
    if START_METHOD != "fork":
        return
    # There is no garbage yet, and looking for garbage would take a quarter of the loading time.
    gc.disable()
    # Errors are raised here. A forked child would load Django a second time, and Django would then only report that
    # `populate()` is not reentrant, without the cause.
    start_django()
    import handoffaudit.celery  # noqa: F401


def load_modules() -> None:
    """Load the other modules of the children, so that the children share them. Do not start a thread here."""
    if START_METHOD != "fork":
        return
    # Errors are ignored, because the children fail with the same error.
    with contextlib.suppress(Exception):
        import granian.server  # noqa: F401

        import handoffaudit.urls  # noqa: F401
        from handoffaudit.celery import app
        from handoffaudit.validation.tokenizers import default_counter

        app.loader.import_default_modules()
        default_counter()
    # A collection in a child would write into every shared page of memory, which copies the page.
    gc.freeze()
    gc.enable()


# A long poll occupies a thread while it waits, so there are many threads.
WEB_THREADS = 32

WORKER_THREADS = 2


def run_web(host: str, port: int) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.log import LogLevels
    from granian.server import Server

    multiprocessing.set_start_method(START_METHOD, force=True)
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

    # No other such worker runs, so remaining leases belong to a dead worker. Without this call, the leased
    # handoffs would wait for minutes.
    jobs.end_leases()
    start_celery("semantic", settings.MODEL_CONCURRENCY)


def start_celery(queue: str, threads: int) -> None:
    from handoffaudit.celery import app

    # Celery warns about every worker that runs as root, because pickled messages can run code. This worker reads only
    # messages of the product, as JSON.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    # `celery worker` starts a worker in the same way, but also loads the prompt of Celery's shell, which takes 5 MB.
    worker = app.Worker(
        pool_cls="threads",
        concurrency=threads,
        queues=queue,
        quiet=True,
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    sys.exit(worker.exitcode)


def silence_output() -> None:
    """Discard the standard output, except checkpoints, which are written to `sys.__stdout__`."""
    if sys.__stdout__ is not None:
        sys.__stdout__ = os.fdopen(os.dup(1), "w", encoding="utf-8")  # type: ignore[misc]
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)


def run_setup(answer: Connection, parent: int) -> None:
    """Prepare the data folder in a child process of the supervisor `parent`, and send the result."""
    end_on_signals()
    exit_with_parent(parent)
    gc.enable()
    try:
        prepared = prepare_or_error()
    finally:
        from django.conf import settings
        from django.db import connections

        # A child of multiprocessing ends without closing its connections, and SQLite would leave its log behind.
        if settings.configured:
            connections.close_all()
    answer.send(prepared)


def run_role(name: str, parent: int, *place: str) -> None:
    """Run the role `name` in a child process of the supervisor `parent`; `place` is host and port of the role `web`."""
    # The child gets its own session, so Ctrl-C reaches only the supervisor, which then stops the children.
    os.setsid()
    end_on_signals()
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"handoff-{name}")
    silence_output()
    exit_with_parent(parent)
    try:
        if name == "web":
            run_web(place[0], int(place[1]))
        else:
            {"worker": run_worker, "asker": run_asker}[name]()
    finally:
        # A child of multiprocessing does not run exit functions, and OpenTelemetry sends its last spans in one of them.
        atexit._run_exitfuncs()  # noqa: SLF001
