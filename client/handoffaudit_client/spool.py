"""Spool: submissions on disk that the server has not acknowledged yet.

Each process appends to files of its own, so that a killed process loses nothing that it has written. A file is removed
once all of its lines are sent. When a process ends, the system releases its lock, and the next process of the same
address and key adopts its files.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from pathlib import Path
from typing import NamedTuple

from handoffaudit_client.spool_files import Owner, SpoolFile, create_owner, take_files, write_line

MOST_BYTES = 64 * 1024 * 1024

# A full spool drops its oldest file. The limit of the spool, divided by this number, is the limit of a file. Only a
# file with a single line may be larger.
_FILES = 16


class Batch(NamedTuple):
    """Consecutive lines, with their file and its owner or, in memory, the number of the first line."""

    lines: list[bytes]
    owner: Owner | None = None
    file: SpoolFile | None = None
    number: int = 0


class Spool:
    """The spool of this process for one address and key, with the files of ended processes that it has adopted."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self._most_bytes = most_bytes
        self._file_bytes = max(most_bytes // _FILES, 1)
        # A handler of a signal may send something while its thread is in `append`.
        self._lock = threading.RLock()
        self._start()

    def _start(self) -> None:
        self._is_appending = False
        self._own: Owner | None = None
        self._adopted: deque[Owner] = deque()
        self._descriptor = -1
        self._number = 0
        self._bytes = 0
        self._is_turn_of_adopted = False
        # Of the lines of this process: how many were appended, and how many are sent or dropped.
        self.appended = self._settled = 0
        self.dropped = 0

    def append(self, line: bytes) -> None:
        """Append a line, and hand it to the operating system before returning.

        Raises `OSError` if the folder is unusable or not private, or the line cannot be written. Also raises it in a
        signal handler whose thread is in `append`.
        """
        with self._lock:
            if self._is_appending:
                raise BlockingIOError("a handler of a signal sends while its thread writes another line")
            self._is_appending = True
            try:
                self._append(line)
            finally:
                self._is_appending = False

    def _append(self, line: bytes) -> None:
        file = self._writable(len(line) + 1)
        write_line(self._descriptor, line + b"\n", file.size)
        file.size += len(line) + 1
        file.lines = file.count() + 1
        self.appended += 1
        self._bytes += len(line) + 1
        while self._bytes > self._most_bytes and self._drop_oldest():
            pass

    def _writable(self, size: int) -> SpoolFile:
        """Return the file for `size` more bytes: the last file, or a new one if the last has no room."""
        if self._own is None:
            self._own = create_owner(self.folder)
        owner = self._own
        if self._descriptor >= 0:
            last = owner.files[-1]
            if not last.size or last.size + size <= self._file_bytes:
                return last
            self._close_file()
        self._number += 1
        path = owner.lock_path.with_suffix(f".{self._number:06d}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o600)
        file = SpoolFile(path, 0)
        file.lines = 0
        owner.files.append(file)
        return file

    def _drop_oldest(self) -> bool:
        """Remove the oldest file, adopted files first; return whether there was one."""
        owner = self._adopted[0] if self._adopted else self._own
        if owner is None or not owner.files:
            return False
        self.dropped += owner.files[0].count()
        self._remove(owner, owner.files[0])
        return True

    def _remove(self, owner: Owner, file: SpoolFile) -> None:
        if owner is self._own and owner.files[-1] is file:
            self._close_file()
        if owner is self._own:
            self._settled += file.count()
        owner.files.remove(file)
        self._bytes -= file.size
        with contextlib.suppress(OSError):
            file.path.unlink()
        if owner.files or owner is self._own:
            owner.save_position()
        else:
            self._adopted.remove(owner)
            owner.release(remove=True)

    def next_batch(self, most_lines: int, most_bytes: int) -> Batch | None:
        """Return lines that are not sent, of this process and of ended ones in turn; None if all are sent.

        Raises `OSError` if the lines can't be read now.
        """
        while True:
            with self._lock:
                found = self._next_file()
                if found is None:
                    return None
                owner, file = found
                size = file.size
            # Reading takes a while, and the threads of the user need the lock.
            if lines := file.read(most_lines, most_bytes):
                return Batch(lines, owner, file)
            with self._lock:
                # The rest of the file is torn, or the file is gone.
                if file in owner.files and file.size == size:
                    self.dropped += file.count()
                    self._remove(owner, file)

    def _next_file(self) -> tuple[Owner, SpoolFile] | None:
        owners = [one for one in (self._own, self._adopted[0] if self._adopted else None) if one and one.files]
        if not owners:
            return None
        self._is_turn_of_adopted = not self._is_turn_of_adopted
        owner = owners[-1 if self._is_turn_of_adopted else 0]
        return owner, owner.files[0]

    def finish(self, batch: Batch) -> None:
        """Note that the server has answered for the lines of a batch."""
        owner, file = batch.owner, batch.file
        if owner is None or file is None:
            return
        with self._lock:
            if owner not in self._owners():
                # The spool was closed. The next process sends the lines again, with the same ids.
                return
            if file not in owner.files:
                # The file was dropped, but these lines have arrived.
                self.dropped -= len(batch.lines)
                return
            file.lines = file.count() - len(batch.lines)
            if owner is self._own:
                self._settled += len(batch.lines)
            file.sent += sum(len(line) + 1 for line in batch.lines)
            if file.sent < file.size:
                owner.save_position()
            else:
                self._remove(owner, file)

    def waiting(self) -> int:
        """Return the number of lines that are not sent, also in adopted files."""
        with self._lock:
            return sum(file.count() for owner in self._owners() for file in owner.files)

    def has_settled(self, number: int) -> bool:
        """Return whether the first `number` lines of this process are sent or dropped."""
        return self._settled >= number

    def _owners(self) -> list[Owner]:
        return [*self._adopted, *([self._own] if self._own else [])]

    def adopt(self) -> int:
        """Adopt the files of ended processes, and return the number of their lines."""
        found = 0
        for owner in take_files(self.folder):
            if not owner.files:
                owner.release(remove=True)
                continue
            found += sum(file.count() for file in owner.files)
            with self._lock:
                self._adopted.append(owner)
                self._bytes += sum(file.size for file in owner.files)
                while self._adopted and self._bytes > self._most_bytes:
                    self._drop_oldest()
        return found

    def close(self) -> None:
        """Release all locks; the next process sends the unsent lines."""
        with self._lock:
            self._release()

    def start_in_child(self) -> None:
        """Start anew after a fork: the files belong to the parent, whose locks the child must not keep."""
        self._lock = threading.RLock()
        self._release(is_child=True)

    def _release(self, *, is_child: bool = False) -> None:
        self._close_file()
        for owner in self._owners():
            owner.release(remove=not owner.files and not is_child, is_child=is_child)
        self._start()

    def _close_file(self) -> None:
        # A fork may happen here, too: see `Owner.release`.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class MemorySpool:
    """Lines in memory, at most `most_bytes`, if they cannot be written to disk. The methods are those of `Spool`."""

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
