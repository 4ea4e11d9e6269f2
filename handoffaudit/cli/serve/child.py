"""The processes that `handoffaudit up` starts: `python -m handoffaudit.cli.serve.child ROLE PARENT [HOST PORT]`."""

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
    """Ends this process soon after `parent`, its parent process, has ended."""
    threading.Thread(target=_watch_parent, args=(parent,), name="parent-watch", daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


# A long poll holds a thread while it waits.
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
        # One process: SQLite has one writer at a time, and waiting between processes is far slower than within one.
        workers=1,
        blocking_threads=WEB_THREADS,
        http=HTTPModes.http1,
        websockets=False,
        log_level=LogLevels.error,
        workers_kill_timeout=3,
    ).serve(target_loader=load_application)


def load_application(target: str, *_: Any, **__: Any) -> Callable[..., Any]:
    """Runs in the process that answers requests, a child of the one that `web` runs in."""
    exit_with_parent(os.getppid())
    from handoffaudit.wsgi import application

    return application


def run_worker() -> None:
    start_celery("structural", WORKER_THREADS)


def run_asker() -> None:
    """Beside the worker where a model is configured: it waits for the model and leaves the processor alone."""
    import django
    from django.conf import settings

    import handoffaudit.celery  # noqa: F401 -- names the settings

    django.setup()
    from handoffaudit.handoffs.llm import jobs

    # It is the only one: what still stands is of one that is gone, and a claim lasts for minutes.
    jobs.end_leases()
    start_celery("semantic", settings.MODEL_CONCURRENCY)


def start_celery(queue: str, threads: int) -> None:
    from handoffaudit.celery import app

    # Said of every worker that root starts; this one reads no messages but our own, as JSON.
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
