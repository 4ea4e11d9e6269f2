from django.apps import AppConfig


class HandoffsConfig(AppConfig):
    name = "handoffaudit.handoffs"
    label = "handoffs"

    def ready(self) -> None:
        # Wake-ups go out through the Celery application, and its workers start the sweep.
        from handoffaudit.handoffs import periodic_jobs  # noqa: F401, PLC0415
