"""The child processes of `handoffaudit up`: `python -m handoffaudit.cli.serve.child ROLE PARENT [HOST PORT]`."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

LOOK_SECONDS = 0.5

GRACE_SECONDS = 5.0


def exit_with_parent(parent: int) -> None:
    """End this process soon after its parent process `parent` has ended."""
    threading.Thread(target=_watch_parent, args=(parent,), name="parent-watch", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


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
