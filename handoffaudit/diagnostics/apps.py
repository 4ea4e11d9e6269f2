from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class DiagnosticsConfig(AppConfig):
    name = "handoffaudit.diagnostics"
    label = "diagnostics"

    def ready(self) -> None:
        post_migrate.connect(_create_text_index, sender=self)
        post_migrate.connect(_store_statistics, sender=self)


def _create_text_index(**_: Any) -> None:
    # A process that migrates nothing starts sooner without this import.
    from handoffaudit.diagnostics import text_index  # noqa: PLC0415

    text_index.create_index()


def _store_statistics(**_: Any) -> None:
    from django.db import connection  # noqa: PLC0415

    from handoffaudit import sqlite_file  # noqa: PLC0415

    if connection.vendor == "sqlite":
        connection.ensure_connection()
        with connection.wrap_database_errors:
            sqlite_file.store_statistics(connection.connection)
