"""Look-up of handoff files, where they are expected and elsewhere, without leaving a folder."""

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

# Opening must not block on a pipe without a writer, or make a terminal the controlling terminal.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LeavesFolder(OSError):
    """A link on the path leads out of the folder. `changed_ns` is the time of the link's last change."""

    def __init__(self, changed_ns: int) -> None:
        super().__init__(errno.ELOOP, LEAVES)
        self.changed_ns = changed_ns


class NoRegularFile(OSError):
    """The path is not a regular file; `found` is its status."""

    def __init__(self, found: os.stat_result) -> None:
        super().__init__(errno.EINVAL, "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no regular file")
        self.found = found


@contextmanager
def found_below(folder: Path, path: str) -> Iterator[tuple[int, str, os.stat_result]]:
    """Yield the open folder that contains the file at `path`, the file's name there, and its status.

    `path` is relative to `folder`, and links are followed within `folder`. Raises `LeavesFolder` for a link that leads
    out of the folder, and `OSError` if the path can't be looked up.
    """
    with ExitStack() as opened:
        yield _Walk(folder, opened).to(path)


def read_below(folder: Path, path: str, most: int) -> bytes:
    """Return at most `most` bytes of a regular file; raises the errors of `found_below` and `NoRegularFile`."""
    with found_below(folder, path) as (parent, name, found):
        return read_in(parent, name, found, most)


def read_in(parent: int, name: str, found: os.stat_result, most: int) -> bytes:
    """Return at most `most` bytes of a file that `found_below` found. Raises `NoRegularFile`."""
    if not stat.S_ISREG(found.st_mode):
        raise NoRegularFile(found)
    with open(os.open(name, _FILE, dir_fd=parent), "rb") as file:  # noqa: PTH123 -- it is open already
        # Another process may have replaced the file since the look-up.
        now = os.fstat(file.fileno())
        if not stat.S_ISREG(now.st_mode):
            raise NoRegularFile(now)
        return file.read(most)


class _Walk:
    """Walk along a path, name by name; passed folders stay open, so that `..` can go back up."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder = folder
        self._opened = opened
        self._above = [self._keep(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))]
        self._links = 0
        # The last change of the last link that was followed, in nanoseconds.
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
        """Return the names that a link leads to, relative to its folder or, for an absolute link, to the top folder."""
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
    """A looked-up file: `file` in the form of a report, `changed_ns` its last change, None without a file."""

    file: dict[str, Any]
    changed_ns: int | None = None


def look(path: Path, folder: Path | None = None) -> LookedUpFile:
    """Look up a file and read its content; errors are described in the result and never raised.

    Links out of `folder`, by default the file's own folder, are not followed, and pipes and devices are not opened.
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
    """Return at most `most` bytes of a regular file, without following links out of the folder. Raises `OSError`."""
    folder, below = _below(path, folder)
    return read_below(folder, below, most)


def _below(path: Path, folder: Path | None) -> tuple[Path, str]:
    """Return the folder that must not be left and the path below it; for a file elsewhere, the file's own folder."""
    whole = path.absolute()
    if folder is None:
        return whole.parent, whole.name
    if ".." not in whole.parts and whole.is_relative_to(folder.absolute()):
        return folder, str(whole.relative_to(folder.absolute()))
    # A path with ".." or through a link above the folder can still lead into the folder.
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
    """Return the files with the given name below `root`, the nearest first, without the expected file.

    The search is limited in entries and depth, and does not follow links to folders.
    """
    own = expected.absolute()
    found = (path for path in walk(root) if path.name == name and path.absolute() != own)
    return [str(path) for _, path in zip(range(MOST_FOUND), found, strict=False)]


def walk(root: Path, *, most: int = MOST_ENTRIES) -> Iterator[Path]:
    """Yield the files below `root`, upper folders first, after looking at no more than `most` entries."""
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
    """The files and folders below a folder, with `/` in paths.

    `folders` maps each folder to its last change in nanoseconds. `complete` is false if the folder has more entries
    than the scan looks at.
    """

    files: set[str] = field(default_factory=set)
    folders: dict[str, int] = field(default_factory=dict)
    complete: bool = True


def scan_folder(root: Path) -> Scan:
    """Scan a folder, without following links to folders; entries that vanish meanwhile are left out.

    Raises `OSError` if `root` can't be read.
    """
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
    """Return the time of a folder's last change in nanoseconds; None if the entry is not a folder."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns if entry.is_dir(follow_symlinks=False) else None
    except OSError:
        return None


def read_stamp(path: Path) -> Stamp | None:
    """Return the values that change with a file: time, size and identity; None if there is no readable file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def last_change_above(path: Path) -> int:
    """Return when the nearest existing folder above a missing file last changed, in nanoseconds.

    The value stays the same until something changes in that folder.
    """
    for folder in path.parents:
        try:
            return folder.stat().st_mtime_ns
        except OSError:
            continue
    return 0
