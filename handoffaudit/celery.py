"""The Celery application. Its tasks carry only a wake-up: the work itself is in the database."""

import os
from typing import Any

from celery import Celery
from celery.signals import worker_init
from django.conf import settings
from django.db import connection

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")

app = Celery("handoffaudit")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["handoffaudit.handoffs", "handoffaudit.diagnostics"])

if not settings.REDIS_URL:
    # The filesystem transport does not create its folders.
    for folder in ("messages", "control"):
        (settings.QUEUE_FOLDER / folder).mkdir(parents=True, exist_ok=True)

# Besides its tasks, a worker has threads for its periodic jobs, for the work that these find, and for the dispatch and
# delivery of webhooks.
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
