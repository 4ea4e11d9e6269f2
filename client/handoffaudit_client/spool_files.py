"""Files of a spool: lines on disk, and the locks by which each process owns its files.

The files of a process belong to one lock file, which also holds the position of the first line that was not sent.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCK, _DRAFT = ".lock", ".draft"

_DRAFT_SECONDS = 3600

_READ_BYTES = 1024 * 1024


class SpoolFile:
    """A file of lines: its path, its size in bytes, and how many of them are sent."""

    def __init__(self, path: Path, size: int, sent: int = 0) -> None:
        self.path = path
        self.size = size
        self.sent = sent
        # None before the lines are counted.
        self.lines: int | None = None

    def count(self) -> int:
        """Return the number of lines that are not sent."""
        if self.lines is None:
            self.lines = 0
            with contextlib.suppress(OSError), self.path.open("rb") as file:
                file.seek(self.sent)
                while chunk := file.read(_READ_BYTES):
                    self.lines += chunk.count(b"\n")
        return self.lines

    def read(self, most_lines: int, most_bytes: int) -> list[bytes]:
        """Return the next lines, at least one whole line if there is one; none if the file is gone.

        Raises `OSError` if the file can't be read now.
        """
        chunk = b""
        # Any other error, such as too many open files, is raised, because the lines must stay.
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self.sent)
            chunk = file.read(min(most_bytes, self.size - self.sent))
            if b"\n" not in chunk:
                chunk += file.readline()
        # Bytes after the last line end are of a process that was killed before `send` returned.
        return chunk.split(b"\n")[:-1][:most_lines]


class Owner:
    """The files of one process, the oldest first, and its lock on them."""

    def __init__(self, lock_path: Path, descriptor: int, files: list[SpoolFile]) -> None:
        self.lock_path = lock_path
        self._descriptor = descriptor
        self.files = deque(files)

    def save_position(self) -> None:
        """Write down how far the first file is sent.

        If this fails, lines may be sent again. The server knows their ids and stores them once.
        """
        number, sent = (_number_of(self.files[0].path), self.files[0].sent) if self.files else (0, 0)
        with contextlib.suppress(OSError):
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, b"%020d %020d\n" % (number, sent))

    def release(self, *, remove: bool, is_child: bool = False) -> None:
        """Release the lock, and with `remove`, remove the lock file. In a child, the parent keeps the lock."""
        # A fork may happen at any moment. The child must not close a descriptor that the parent has closed already.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        with contextlib.suppress(OSError):
            if remove:
                self.lock_path.unlink()
            if fcntl is not None and not is_child:
                # A child that was forked just now has the file open, too, and would keep the lock.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def create_owner(folder: Path) -> Owner:
    """Create the folder and the lock file of this process, which other processes find only once it is locked.

    Raises `OSError` if the folder cannot be used or is not private, or if the system has no locks of files.
    """
    make_private(folder)
    draft = folder / f"{os.getpid()}-{os.urandom(4).hex()}{_DRAFT}"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    path = draft.with_suffix(_LOCK)
    try:
        _lock(descriptor)
        draft.rename(path)
    except OSError:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
        raise
    return Owner(path, descriptor, [])


def take_files(folder: Path) -> Iterator[Owner]:
    """Yield the owners of the files of ended processes, the oldest first, each locked for this process."""
    _remove_drafts(folder)
    for path in _locks(folder):
        if owner := _take(path):
            yield owner


def _number_of(path: Path) -> int:
    return int(path.suffix[1:]) if path.suffix[1:].isdecimal() else 0


def make_private(folder: Path) -> None:
    """Create the folder if it is missing, so that only this user has access.

    Raises `OSError` if the folder cannot be created, belongs to another user, or gives other users any access.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        found = folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{folder} is not private to you: use chmod 700")


def usual_folder() -> Path:
    """Return the folder for spools: HANDOFFAUDIT_SPOOL, else a folder in the user's data folder.

    If the user has no home, as in some containers, return a temporary folder.
    """
    given = os.environ.get("HANDOFFAUDIT_SPOOL")
    base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "handoffaudit" / "client"
    try:
        return Path(given or base).expanduser().absolute()
    except RuntimeError:
        import tempfile

        return Path(tempfile.gettempdir()) / f"handoffaudit-client-{os.getuid()}"


def _lock(descriptor: int) -> None:
    """Lock an open file for this process. The system releases the lock however the process ends.

    Raises `OSError` if another process has locked the file, or if the system has no such locks.
    """
    if fcntl is None:
        raise OSError("this system has no locks of files")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_line(descriptor: int, line: bytes, place: int) -> None:
    """Append a whole line to a file of `place` bytes.

    If the write fails, cut the file to `place` bytes, so that no part of the line stays, and raise `OSError`.
    """
    written = 0
    try:
        written = os.write(descriptor, line)
    finally:
        if written < len(line):
            os.ftruncate(descriptor, place)
    if written < len(line):
        raise OSError("the disk is full")


def _locks(folder: Path) -> list[Path]:
    found: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{_LOCK}"):
            with contextlib.suppress(OSError):
                found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found)]


def _remove_drafts(folder: Path) -> None:
    """Remove the drafts of processes that were killed while they created their locks."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{_DRAFT}"):
            if time.time() - path.stat().st_mtime > _DRAFT_SECONDS:
                path.unlink()


def _take(path: Path) -> Owner | None:
    """Lock the files of an ended process; return None if the process lives, or another process was faster."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        _lock(descriptor)
        # The owner may have removed the file before it was locked.
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return Owner(path, descriptor, _files_of(path, os.read(descriptor, 64)))
    except OSError:
        pass
    os.close(descriptor)
    return None


def _files_of(lock_path: Path, position: bytes) -> list[SpoolFile]:
    numbers = [int(part) for part in position.split() if part.isdigit()]
    first, sent = numbers if len(numbers) == 2 else (0, 0)
    files = []
    for path in sorted(lock_path.parent.glob(f"{lock_path.stem}.*"), key=_number_of):
        if _number_of(path):
            size = path.stat().st_size
            files.append(SpoolFile(path, size, sent if _number_of(path) == first and sent <= size else 0))
    return files
