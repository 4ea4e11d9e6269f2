"""The processes that `handoffaudit up` starts: `python -m handoffaudit.cli.running.child ROLE PARENT [HOST PORT]`."""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from handoffaudit.cli.running.orphans import end_with

# A long poll holds a thread while it waits.
WEB_THREADS = 32
WORKER_THREADS = 2


def web(host: str, port: int) -> None:
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
    end_with(os.getppid())
    from handoffaudit.wsgi import application

    return application


def worker() -> None:
    work("structural", WORKER_THREADS)


def asker() -> None:
    """Beside the worker where a model is configured: it waits for the model and leaves the processor alone."""
    import django
    from django.conf import settings

    import handoffaudit.celery  # noqa: F401 -- names the settings

    django.setup()
    from handoffaudit.handoffs.llm import jobs

    # It is the only one: what still stands is of one that is gone, and a claim lasts for minutes.
    jobs.end_leases()
    work("semantic", settings.MODEL_CONCURRENCY)


def work(queue: str, threads: int) -> None:
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
    end_with(int(parent))
    if role == "web":
        web(place[0], int(place[1]))
    else:
        {"worker": worker, "asker": asker}[role]()


if __name__ == "__main__":
    main(sys.argv[1:])
