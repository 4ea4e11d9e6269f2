from django.apps import AppConfig


class HandoffsConfig(AppConfig):
    name = "handoffaudit.handoffs"
    label = "handoffs"

    def ready(self) -> None:
        # Wake-ups go out through the Celery application, and its workers start the sweep.
        import handoffaudit.celery  # noqa: PLC0415 -- needs the apps loaded
        import handoffaudit.handoffs.sweeping  # noqa: F401, PLC0415
