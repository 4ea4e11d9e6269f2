from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DiagnosticsConfig(AppConfig):
    name = "handoffaudit.diagnostics"
    label = "diagnostics"

    def ready(self) -> None:
        post_migrate.connect(_create_text_index, sender=self)


def _create_text_index(**_: Any) -> None:
    # A process that migrates nothing starts sooner without this import.
    from handoffaudit.diagnostics import text_index  # noqa: PLC0415

    text_index.create_index()
