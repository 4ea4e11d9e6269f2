"""The file of the product's own events: lines are appended whole, by any number of processes, and a disk that fails
fails no request."""

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

# A pipe that nobody reads would hold us up.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK


class Appending:
    """One file, opened when it is first written to, and again once it was moved away or removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._opened: tuple[int, int] | None = None
        self._begins_a_line = True
        self._failing = False
        self._lock = threading.Lock()

    def write(self, lines: Iterable[str]) -> None:
        """Each with one call of the system. What can't be written is lost, and told once until it works again."""
        with self._lock:
            try:
                descriptor = self._open()
                for line in lines:
                    self._append(descriptor, line)
            except OSError as error:
                if not self._failing:
                    log.warning("the events file can't be written", path=str(self._path), error=str(error))
                self._failing = True
                self._close()
            else:
                self._failing = False

    def _append(self, descriptor: int, line: str) -> None:
        raw = f"{line}\n".encode("utf-8", "replace")
        # After a line that was cut off the next one begins anew.
        raw = raw if self._begins_a_line else b"\n" + raw
        written = os.write(descriptor, raw)
        self._begins_a_line = written in (0, len(raw)) and (self._begins_a_line or written > 0)
        if written < len(raw):
            raise OSError(28, "the disk took only a part of a line")

    def _open(self) -> int:
        if self._descriptor is not None and self._opened == self._there():
            return self._descriptor
        self._close()
        self._descriptor = os.open(self._path, _FLAGS, 0o640)
        found = os.fstat(self._descriptor)
        self._opened = found.st_dev, found.st_ino
        return self._descriptor

    def _there(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = self._opened = None
