from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DiagnosticsConfig(AppConfig):
    name = "handoffaudit.diagnostics"
    label = "diagnostics"

    def ready(self) -> None:
        from handoffaudit.diagnostics.text_index import create_index  # noqa: PLC0415 -- models are loaded by now

        post_migrate.connect(create_index, sender=self)
