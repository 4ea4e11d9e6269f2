"""The Celery application. Its tasks carry nothing but a wake-up: what is to be done stands in the database."""

import os

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")

app = Celery("handoffaudit")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["handoffaudit.handoffs", "handoffaudit.diagnostics"])

if not settings.REDIS_URL:
    # The filesystem transport does not make its folders.
    for folder in ("messages", "control"):
        (settings.QUEUE_FOLDER / folder).mkdir(parents=True, exist_ok=True)
