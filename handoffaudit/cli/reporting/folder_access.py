"""Open files below a folder without leaving it: whoever writes there may have put links, pipes or devices there.

Paths are followed name by name from an open folder, so that nothing that is swapped meanwhile leads out of it.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

LEAVES: Final = "the link leaves the folder, and is not followed"
_MOST_LINKS: Final = 40
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that nobody writes to must not be waited for, and a terminal not become this process's own.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LeavesFolder(OSError):
    """A link on the path leads out of the folder. `changed_ns` is when the link was made."""

    def __init__(self, changed_ns: int) -> None:
        super().__init__(errno.ELOOP, LEAVES)
        self.changed_ns = changed_ns


class NoRegularFile(OSError):
    """There is something else: `found` is its status."""

    def __init__(self, found: os.stat_result) -> None:
        super().__init__(errno.EINVAL, "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no regular file")
        self.found = found


@contextmanager
def found_below(folder: Path, path: str) -> Iterator[tuple[int, str, os.stat_result]]:
    """Give the open folder that the file at `path` below `folder` is in, its name there, and its status.

    Links are followed within the folder. Raise `LeavesFolder` for one that leads out of it, and `OSError` where nothing
    can be looked up.
    """
    with ExitStack() as opened:
        yield _Walk(folder, opened).to(path)


def read_below(folder: Path, path: str, most: int) -> bytes:
    """Read at most so many bytes of a regular file below the folder. Raise as `found_below`, and `NoRegularFile`."""
    with found_below(folder, path) as (parent, name, found):
        return read_in(parent, name, found, most)


def read_in(parent: int, name: str, found: os.stat_result, most: int) -> bytes:
    """Read at most so many bytes of what `found_below` gave. Raise `NoRegularFile` for what is no file."""
    if not stat.S_ISREG(found.st_mode):
        raise NoRegularFile(found)
    with open(os.open(name, _FILE, dir_fd=parent), "rb") as file:  # noqa: PTH123 -- it is open already
        # It may have been swapped since it was looked up.
        now = os.fstat(file.fileno())
        if not stat.S_ISREG(now.st_mode):
            raise NoRegularFile(now)
        return file.read(most)


class _Walk:
    """From name to name; folders that were passed stay open, for the way back up."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder = folder
        self._opened = opened
        self._above = [self._keep(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))]
        self._links = 0
        # When the last link was made that was followed.
        self._changed_ns = 0

    def _keep(self, descriptor: int) -> int:
        self._opened.callback(os.close, descriptor)
        return descriptor

    def to(self, path: str) -> tuple[int, str, os.stat_result]:
        names = deque(part for part in path.split("/") if part not in ("", "."))
        while names:
            name = names.popleft()
            if name == "..":
                self._go_up()
                continue
            found = os.stat(name, dir_fd=self._above[-1], follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                names.extendleft(reversed(self._target(name, found)))
            elif not names:
                return self._above[-1], name, found
            else:
                self._above.append(self._keep(os.open(name, _FOLDER, dir_fd=self._above[-1])))
        return self._above[-1], ".", os.fstat(self._above[-1])

    def _go_up(self) -> None:
        if len(self._above) == 1:
            raise LeavesFolder(self._changed_ns)
        self._above.pop()

    def _target(self, name: str, found: os.stat_result) -> list[str]:
        """The names that a link leads to, from the folder that it is in or, where it is absolute, from the top."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self._above[-1])
        parts = [part for part in target.split("/") if part not in ("", ".")]
        self._changed_ns = found.st_mtime_ns
        if target.startswith("/"):
            parts = self._from_top(parts)
            del self._above[1:]
        return parts

    def _from_top(self, parts: list[str]) -> list[str]:
        for top in (self._folder.absolute(), self._folder.resolve()):
            above = list(top.parts[1:])
            if parts[: len(above)] == above:
                return parts[len(above) :]
        raise LeavesFolder(self._changed_ns)
