"""The Celery application, and the broker for installations without Redis.

A task only wakes a worker: the work itself is in the database. The broker is kombu's filesystem transport, changed so
that a message is complete before a worker can read it. In kombu, a worker can read a file that is not completely
written, and a worker that reads half a message stops.
"""

import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import orjson
import structlog
from celery import Celery, Task
from celery.signals import task_postrun, task_prerun, worker_init
from django.conf import settings
from django.db import InterfaceError, InternalError, OperationalError, connection
from kombu.exceptions import ChannelError
from kombu.transport import filesystem

from handoffaudit import observability
from handoffaudit.observability import bind_task, clear_ids

# The message header that has the ids of the requests that caused the message.
REQUEST_IDS = "handoffaudit_request_ids"
BINDING_TRIES = 20
BINDING_PAUSE_SECONDS = 0.01


def make_queue_folders() -> None:
    """Create the folders of the queue, which the filesystem transport needs. Do nothing with Redis."""
    if not settings.REDIS_URL:
        for folder in ("messages", "control"):
            (settings.QUEUE_FOLDER / folder).mkdir(parents=True, exist_ok=True)


class Channel(filesystem.Channel):
    """A channel that publishes messages by a rename, which is atomic on a file system."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        make_queue_folders()
        super().__init__(*arguments, **named)  # type: ignore[no-untyped-call]

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}"
        written = folder / f"{name}.part"
        try:
            written.write_bytes(orjson.dumps(payload, default=str))
            written.replace(folder / f"{name}.{queue}.msg")
        except OSError as error:
            raise ChannelError(f"Cannot add a message to {folder}") from error

    def _queue_bind(self, *arguments: Any) -> None:
        """Bind the queue, with retries.

        If two processes start at the same time, one process may read a file that the other process has not filled yet.
        """
        for left in reversed(range(BINDING_TRIES)):
            try:
                super()._queue_bind(*arguments)  # type: ignore[no-untyped-call]
            except ValueError:
                if not left:
                    raise
                time.sleep(BINDING_PAUSE_SECONDS)
            else:
                return


class Transport(filesystem.Transport):
    Channel = Channel


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")
# Celery would run Django's checks in each worker and ignore their results. The checks load all pages, which take 25 MB.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

log = structlog.get_logger(__name__)


class DatabaseTask(Task):  # type: ignore[misc]
    """A task whose database may fail. Celery would log the traceback of each failure as an error of the product."""

    throws = (InterfaceError, InternalError, OperationalError)

    def on_failure(self, exc: Exception, *_: Any, **__: Any) -> None:
        if isinstance(exc, self.throws):
            log.warning("a task could not use the database", task=self.name, error=str(exc))


app = Celery("handoffaudit", task_cls=DatabaseTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["handoffaudit.handoffs", "handoffaudit.diagnostics"])

# Besides its tasks, a worker has threads for its periodic jobs, for the work that these jobs find, and for the dispatch
# and delivery of webhooks.
OWN_THREADS = 16


@worker_init.connect  # type: ignore[untyped-decorator]
def have_connections(sender: Any, **_: Any) -> None:
    """Give each thread of the worker a connection of the pool.

    With fewer connections, LLM checks would wait for each other until they fail.
    """
    pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool")
    if pool:
        # A pool that was opened during startup has the old size, so a new pool replaces it.
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        pool["max_size"] = max(pool["max_size"], sender.concurrency + OWN_THREADS)


@worker_init.connect  # type: ignore[untyped-decorator]
def start_traces(**_: Any) -> None:
    observability.start_traces("worker")


# The span of the task that a thread runs.
_spans = threading.local()


@task_prerun.connect  # type: ignore[untyped-decorator]
def begin_task(task: Any, **_: Any) -> None:
    """Add the task, and the requests that caused the task, to each log line of the task."""
    given = (task.request.headers or {}).get(REQUEST_IDS)
    bind_task(task.name, given if isinstance(given, list) else ())
    _spans.begun = observability.begin_task_span(task.name)


@task_postrun.connect  # type: ignore[untyped-decorator]
def end_task(state: str | None = None, **_: Any) -> None:
    observability.end_task_span(getattr(_spans, "begun", None), failed=state == "FAILURE")
    _spans.begun = None
    clear_ids()
