"""Room on the disk of the data folder. It ends before the database can be written no more: reading needs room, too."""

import shutil
from pathlib import Path

from django.conf import settings
from django.db import connection

# Of the whole disk, where this is less than the setting: a small disk must not look full from the start.
SHARE = 0.02
RETRY_AFTER_SECONDS = 60


def missing() -> str:
    """Say in words that a disk is nearly full; empty where there is room.

    Only disks that this process sees: the one of an SQLite file, and the one of the queue where there is no Redis.
    """
    for folder in _folders():
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        least = min(settings.MIN_FREE_BYTES, int(usage.total * SHARE))
        if usage.free < least:
            return f"{usage.free / 1e6:,.0f} MB are free in {folder}, {least / 1e6:,.0f} MB are needed: make room"
    return ""


def _folders() -> set[Path]:
    folders = set()
    if connection.vendor == "sqlite":
        folders.add(Path(connection.settings_dict["NAME"]).parent)
    if not settings.REDIS_URL:
        folders.add(settings.DATA_FOLDER)
    return folders
