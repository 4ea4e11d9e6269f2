"""A watch on the SQLite database file that remembers in this process whether the file is damaged."""

import threading
import time
from pathlib import Path

from django.db import connection

from handoffaudit.sqlite_file import find_damage

# The interval and the duration of a look at the file. The request that triggers a look waits for it.
EVERY_SECONDS = 60.0
LOOK_SECONDS = 0.5


class DamageWatch:
    """The result of the last look at the file. Other requests do not wait for a look in progress."""

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._look_at = 0.0
        self._found = ""

    def is_there(self) -> bool:
        """Return whether the file is damaged. Look at the file where the last look is old."""
        if connection.vendor != "sqlite":
            return False
        if time.monotonic() >= self._look_at and self._looking.acquire(blocking=False):
            try:
                self._found = find_damage(Path(connection.settings_dict["NAME"]), seconds=LOOK_SECONDS)
                self._look_at = time.monotonic() + EVERY_SECONDS
            finally:
                self._looking.release()
        return bool(self._found)

    def is_known(self) -> bool:
        """Return whether the known damage is still there. Requests for a sound file never wait for a look."""
        return bool(self._found) and self.is_there()


watch = DamageWatch()
