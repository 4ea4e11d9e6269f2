"""The Celery application. Its tasks carry nothing but a wake-up: what is to be done stands in the database."""

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
    # The filesystem transport does not make its folders.
    for folder in ("messages", "control"):
        (settings.QUEUE_FOLDER / folder).mkdir(parents=True, exist_ok=True)

# Beside its tasks a worker has threads for its periodic work and what that finds, for telling subscribers, and for
# sending to them.
OWN_THREADS = 16


@worker_init.connect  # type: ignore[untyped-decorator]
def have_connections(sender: Any, **_: Any) -> None:
    """A connection of the pool for each thread: with fewer, checks of the model would wait for each other until they
    fail."""
    pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool")
    if pool:
        # Another pool, where one was opened to prepare something.
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        pool["max_size"] = max(pool["max_size"], sender.concurrency + OWN_THREADS)
