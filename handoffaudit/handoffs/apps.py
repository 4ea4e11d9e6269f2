from django.apps import AppConfig


class HandoffsConfig(AppConfig):
    name = "handoffaudit.handoffs"
    label = "handoffs"

    def ready(self) -> None:
        # Importing this module connects the periodic jobs to the signals of the Celery worker.
        from handoffaudit.handoffs import tasks  # noqa: F401, PLC0415
