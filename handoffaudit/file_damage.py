"""Whether the file of the SQLite database is known to be damaged, in this process."""

import threading
import time
from pathlib import Path

from django.db import connection

from handoffaudit.sqlite_file import find_damage

# How often the file is looked at, and for how long: whoever asks waits for it.
EVERY_SECONDS = 60.0
LOOK_SECONDS = 0.5


class DamageWatch:
    """What the last look at the file found. Other requests do not wait for a look that is under way."""

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._look_at = 0.0
        self._found = ""

    def is_there(self) -> bool:
        """Return whether the file is damaged; look at it where the last look is old."""
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
        """Return whether damage was found before; look again only then, as no request of a sound file should wait."""
        return bool(self._found) and self.is_there()


watch = DamageWatch()
