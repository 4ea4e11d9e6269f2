"""Spool in memory, for lines that cannot be written to disk."""

from __future__ import annotations

import threading
from collections import deque

from handoffaudit_client.spool import MOST_BYTES, Batch


class MemorySpool:
    """Keep at most `most_bytes` bytes of lines in memory. The methods are those of `Spool`."""

    def __init__(self, most_bytes: int = MOST_BYTES // 8) -> None:
        self._most_bytes = most_bytes
        self._start()

    def _start(self) -> None:
        self._lines: deque[bytes] = deque()
        # The number of the first line in memory, counted from the first line ever appended.
        self._first = 0
        self._bytes = 0
        self._lock = threading.RLock()
        self.appended = 0
        self.dropped = 0

    def append(self, line: bytes) -> None:
        """Append a line; drop the oldest lines if there are too many bytes."""
        with self._lock:
            self._lines.append(line)
            self._bytes += len(line)
            self.appended += 1
            while self._bytes > self._most_bytes:
                self._drop_first()
                self.dropped += 1

    def _drop_first(self) -> None:
        self._bytes -= len(self._lines.popleft())
        self._first += 1

    def next_batch(self, most_lines: int, most_bytes: int) -> Batch | None:
        """Return the oldest lines; None if there are none.

        The batch has at most `most_lines` lines of at most `most_bytes` bytes together. The first line may be longer.
        """
        with self._lock:
            lines: list[bytes] = []
            for line in self._lines:
                if len(lines) >= most_lines or (lines and most_bytes < len(line)):
                    break
                lines.append(line)
                most_bytes -= len(line)
            return Batch(lines, number=self._first) if lines else None

    def finish(self, batch: Batch) -> None:
        with self._lock:
            # Lines that were dropped meanwhile have arrived all the same.
            self.dropped -= max(min(self._first - batch.number, len(batch.lines)), 0)
            while self._lines and self._first < batch.number + len(batch.lines):
                self._drop_first()

    def waiting(self) -> int:
        return len(self._lines)

    def has_settled(self, number: int) -> bool:
        return self._first >= number

    def adopt(self) -> int:
        """Return 0: nothing outlasts the process."""
        return 0

    def close(self) -> None:
        """Drop the unsent lines, and count them as dropped."""
        with self._lock:
            self.dropped += len(self._lines)
            while self._lines:
                self._drop_first()

    def start_in_child(self) -> None:
        """Start anew after a fork: the lines belong to the parent."""
        self._start()
