"""Handoff files where they are expected and elsewhere, looked up below a folder without leaving it."""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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


LONGEST_FILE = 512 * 1024

MOST_ENTRIES = 20_000

MOST_DEPTH = 12

MOST_FOUND = 50

LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})

_BINARY_LOOK = 8192


@dataclass(frozen=True, slots=True)
class LookedUpFile:
    """`file` as a report has it. `changed_ns` is when the file was last changed, None where there is none."""

    file: dict[str, Any]
    changed_ns: int | None = None


def look(path: Path, folder: Path | None = None) -> LookedUpFile:
    """Read the file as it is; what can't be read is said in words and never raised.

    No link out of `folder` is followed, by default the one that the file is in; nor are pipes and devices opened.
    """
    folder, below = _below(path, folder)
    try:
        with found_below(folder, below) as (parent, name, found):
            return _read_found(parent, name, found)
    except LeavesFolder as error:
        return LookedUpFile(_unread(LEAVES), error.changed_ns)
    except FileNotFoundError:
        return _absent(f"it is a symbolic link to {path.readlink()}, which is not there" if path.is_symlink() else "")
    except OSError as error:
        return _absent(f"it can't be looked up: {_error_text(error)}")


def read_bytes(path: Path, folder: Path | None, most: int) -> bytes:
    """Read at most so many bytes of a regular file; no link out of the folder is followed. Raise `OSError`."""
    folder, below = _below(path, folder)
    return read_below(folder, below, most)


def _below(path: Path, folder: Path | None) -> tuple[Path, str]:
    """The folder that must not be left, and the path below it: where it is not below that one, the file's own."""
    whole = path.absolute()
    if folder is None:
        return whole.parent, whole.name
    if ".." not in whole.parts and whole.is_relative_to(folder.absolute()):
        return folder, str(whole.relative_to(folder.absolute()))
    # Written with "..", or by a link above the folder, the path is below it all the same.
    held = next((above for above in whole.parents if _is_same(above, folder)), None)
    return (whole.parent, whole.name) if held is None else (folder, str(whole.relative_to(held)))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return False


def _read_found(parent: int, name: str, found: os.stat_result) -> LookedUpFile:
    try:
        return LookedUpFile(_read(parent, name, found), found.st_mtime_ns)
    except NoRegularFile as error:
        return LookedUpFile(
            _absent(str(error.strerror)).file, None if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns
        )


def _absent(why: str) -> LookedUpFile:
    return LookedUpFile({"exists": False} | ({"error": why} if why else {}))


def _read(parent: int, name: str, found: os.stat_result) -> dict[str, Any]:
    if stat.S_ISREG(found.st_mode) and found.st_size > LONGEST_FILE:
        return _unread(f"it has {found.st_size:,} bytes, and {LONGEST_FILE:,} are the most")
    try:
        raw = read_in(parent, name, found, LONGEST_FILE + 1)
    except NoRegularFile:
        raise
    except OSError as error:
        return _unread(_error_text(error))
    if len(raw) > LONGEST_FILE:
        return _unread(f"it has more than {LONGEST_FILE:,} bytes, which are the most")
    try:
        return {"exists": True, "content": raw.decode()}
    except UnicodeDecodeError as error:
        return _unread(_no_text(raw, error))


def _no_text(raw: bytes, error: UnicodeDecodeError) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16 and not UTF-8"
    if b"\0" in raw[:_BINARY_LOOK]:
        return "it is binary and no text"
    line = raw.count(b"\n", 0, error.start) + 1
    return f"line {line:,} has the byte {raw[error.start]:02x}, which is no UTF-8"


def _unread(why: str) -> dict[str, Any]:
    return {"exists": True, "error": why}


def _error_text(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def find_elsewhere(name: str, root: Path, expected: Path) -> list[str]:
    """Files called `name` below `root`, the nearest to it first, without the expected one. Looks at so many entries,
    so deep, and into no folder that links lead to."""
    own = expected.absolute()
    found = (path for path in walk(root) if path.name == name and path.absolute() != own)
    return [str(path) for _, path in zip(range(MOST_FOUND), found, strict=False)]


def walk(root: Path, *, most: int = MOST_ENTRIES) -> Iterator[Path]:
    """The files below `root`, folder by folder, those of upper folders first; at most so many entries are looked at."""
    folders = deque([(root, 0)])
    seen = 0
    while folders:
        folder, depth = folders.popleft()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > most:
                return
            if _is_folder(entry):
                if depth < MOST_DEPTH and entry.name not in LEFT_OUT:
                    folders.append((folder / entry.name, depth + 1))
            else:
                yield folder / entry.name


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


MOST_SCANNED_ENTRIES: Final = 100_000

MOST_SCANNED_DEPTH: Final = 24

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Scan:
    """Paths below the folder, with `/`. `folders` with when they were last changed, in nanoseconds; `complete`: there
    were not more entries than are looked at."""

    files: set[str] = field(default_factory=set)
    folders: dict[str, int] = field(default_factory=dict)
    complete: bool = True


def scan_folder(root: Path) -> Scan:
    """No link is followed to a folder; what vanishes meanwhile is left out. Raises OSError where `root` can't be
    read."""
    found = Scan()
    seen = 0
    waiting = deque([("", 0)])
    while waiting:
        below, depth = waiting.popleft()
        try:
            entries = list(os.scandir(root / below))
        except OSError:
            if not below:
                raise
            continue
        seen += len(entries)
        if seen > MOST_SCANNED_ENTRIES:
            found.complete = False
            return found
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            changed = _folder_changed(entry)
            if changed is None:
                found.files.add(path)
            elif depth < MOST_SCANNED_DEPTH and entry.name not in LEFT_OUT:
                found.folders[path] = changed
                waiting.append((path, depth + 1))
    return found


def _folder_changed(entry: "os.DirEntry[str]") -> int | None:
    """When a folder was last changed; None for what is no folder."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns if entry.is_dir(follow_symlinks=False) else None
    except OSError:
        return None


def read_stamp(path: Path) -> Stamp | None:
    """What changes with the file: its time, size and identity. None where there is no file that can be looked up."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def last_change_above(path: Path) -> int:
    """When the nearest folder above a file that never came was last changed, in nanoseconds: the same each time it is
    asked, as long as nothing happens there."""
    for folder in path.parents:
        try:
            return folder.stat().st_mtime_ns
        except OSError:
            continue
    return 0
