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

ROOTLESS: Final = "a link on the path is followed only below --root"

_MOST_LINKS: Final = 40

# With O_PATH a folder that may be entered but not listed can be opened, too. macOS has no O_PATH.
_ANY_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

_FOLDER: Final = _ANY_FOLDER | os.O_NOFOLLOW

# Opening must not block on a pipe without a writer, or make a terminal the controlling terminal.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class LeavesFolder(OSError):
    """The error for a link on the path that is not followed. `changed_ns` is the time of the link's last change."""

    def __init__(self, changed_ns: int, why: str = LEAVES) -> None:
        super().__init__(errno.ELOOP, why)
        self.changed_ns = changed_ns


class NoRegularFile(OSError):
    """The error for a path that is no regular file; `found` is the status of the path."""

    def __init__(self, found: os.stat_result) -> None:
        super().__init__(errno.EINVAL, "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is not a regular file")


@contextmanager
def _open_parent(path: Path, folder: Path | None) -> Iterator[tuple[int, str, os.stat_result]]:
    """Yield the open folder that contains a file, the file's name there, and its status.

    Links are followed within `folder`. For a file outside of it, `_open_own` says which links above the file are
    followed, and the file itself can be a link to a file below its own folder. Without `folder`, the file must not be a
    link. Raises `LeavesFolder` for a link that is not followed, and `OSError` if the path can't be looked up.
    """
    whole = path.absolute()
    below = None if folder is None else _find_relative_path(whole, folder)
    with ExitStack() as opened:
        if folder is not None and below is not None:
            yield _Walk(folder, opened).to(below)
            return
        whole = Path(os.path.normpath(whole))
        walk = _Walk(whole.parent, opened, top=_open_own(whole.parent, opened))
        found = walk.to(whole.name)
        if folder is None and walk.changed_ns:
            raise LeavesFolder(walk.changed_ns, ROOTLESS)
        yield found


def _open_own(folder: Path, opened: ExitStack) -> int:
    """Open the folder of a file, without following a link that an agent could have put in place of a folder.

    A link is refused in two places: as the folder itself, and as the folder above it. The current folder, its parents
    and the entries of the root folder are exceptions. They are trusted to belong to the user, so they can be links.
    Links further up are followed; below the current folder, only links to targets in the current folder.
    """
    current = _list_current_folders()
    users = {above for one in current for above in (one, *one.parents)} | {Path(*folder.parts[:2])}
    start = next(above for above in (folder, *folder.parents) if above in users)
    top = max(start, folder.parent.parent, key=lambda above: len(above.parts))
    start = start if start in current else top
    parent, name, _ = _Walk(start, opened).to(str(top.relative_to(start)))
    walk = _Walk(top, opened, top=os.open(name, _FOLDER, dir_fd=parent), most_links=0)
    parent, name, _ = walk.to(str(folder.relative_to(top)))
    return os.open(name, _FOLDER, dir_fd=parent)


def _list_current_folders() -> set[Path]:
    """Return the current folder (or `/` if it was removed), and its path in `PWD`, which may contain links."""
    try:
        current = Path.cwd()
    except FileNotFoundError:
        return {Path("/")}
    named = Path(os.environ.get("PWD", current))
    return {current, named} if named.is_absolute() and _is_same(named, current) else {current}


def _read_in(parent: int, name: str, found: os.stat_result, most: int) -> bytes:
    """Return at most `most` bytes of a file whose status is `found`. Raises `NoRegularFile` and other `OSError`s."""
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

    def __init__(
        self, folder: Path, opened: ExitStack, *, top: int | None = None, most_links: int = _MOST_LINKS
    ) -> None:
        """Begin in `folder`. If the folder is open already, `top` is its descriptor, which `opened` will close."""
        self._folder = folder
        self._opened = opened
        self._most_links = most_links
        self._above = [self._keep(os.open(folder, _ANY_FOLDER) if top is None else top)]
        self._links = 0
        # The last change of the last link that was met, in nanoseconds.
        self.changed_ns = 0

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
                names.extendleft(reversed(self._read_link(name, found)))
            elif not names:
                return self._above[-1], name, found
            else:
                self._above.append(self._keep(os.open(name, _FOLDER, dir_fd=self._above[-1])))
        return self._above[-1], ".", os.fstat(self._above[-1])

    def _go_up(self) -> None:
        if len(self._above) == 1:
            raise LeavesFolder(self.changed_ns)
        self._above.pop()

    def _read_link(self, name: str, found: os.stat_result) -> list[str]:
        """Return the names that a link leads to, relative to its folder or, for an absolute link, to the top folder."""
        self._links += 1
        self.changed_ns = found.st_mtime_ns
        if not self._most_links:
            raise LeavesFolder(self.changed_ns, ROOTLESS)
        if self._links > self._most_links:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self._above[-1])
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if target.startswith("/"):
            parts = self._from_top(parts)
            del self._above[1:]
        return parts

    def _from_top(self, parts: list[str]) -> list[str]:
        for top in (self._folder.absolute(), self._folder.resolve()):
            above = list(top.parts[1:])
            if parts[: len(above)] == above:
                return parts[len(above) :]
        raise LeavesFolder(self.changed_ns)


LONGEST_FILE = 512 * 1024

MOST_ENTRIES = 20_000

MOST_DEPTH = 12

MOST_FOUND = 50

LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})

_BINARY_LOOK = 8192


@dataclass(frozen=True, slots=True)
class LookedUpFile:
    """The result of a look-up.

    `file` is the member `file` of a report: `exists`, and `content` or `error`. `changed_ns` is the time in nanoseconds
    of the last change of the file or of the link that was not followed. It is None if the look-up found neither.
    """

    file: dict[str, Any]
    changed_ns: int | None = None


def look(path: Path, folder: Path | None = None) -> LookedUpFile:
    """Look up a file and read its content; errors are described in the result and never raised.

    Links that leave `folder` are not followed. Without `folder`, a file that is a link is not followed either. Pipes
    and devices are not opened.
    """
    try:
        with _open_parent(path, folder) as (parent, name, found):
            changed_ns = None if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns
            return LookedUpFile(_read(parent, name, found), changed_ns)
    except LeavesFolder as error:
        return LookedUpFile(_describe_unread(str(error.strerror)), error.changed_ns)
    except FileNotFoundError:
        return LookedUpFile(_describe_absent(_explain_broken_link(path)))
    except OSError as error:
        return LookedUpFile(_describe_absent(f"it can't be looked up: {_explain_error(error)}"))


def _explain_broken_link(path: Path) -> str:
    """Describe a link whose target is missing; return an empty text if the path is not a link."""
    try:
        return f"it is a symbolic link to {path.readlink()}, which is not there"
    except OSError:
        return ""


def read_bytes(path: Path, folder: Path | None, most: int) -> bytes:
    """Return at most `most` bytes of a regular file, following only links that `look` follows. Raises `OSError`."""
    with _open_parent(path, folder) as (parent, name, found):
        return _read_in(parent, name, found, most)


def _find_relative_path(whole: Path, folder: Path) -> str | None:
    """Return the path below the folder; None for a file elsewhere."""
    if ".." not in whole.parts and whole.is_relative_to(folder.absolute()):
        return str(whole.relative_to(folder.absolute()))
    # A path with ".." or through a link above the folder can still lead into the folder.
    ancestor = next((above for above in whole.parents if _is_same(above, folder)), None)
    return None if ancestor is None else str(whole.relative_to(ancestor))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return False


def _describe_absent(why: str) -> dict[str, Any]:
    return {"exists": False} | ({"error": why} if why else {})


def _read(parent: int, name: str, found: os.stat_result) -> dict[str, Any]:
    if stat.S_ISREG(found.st_mode) and found.st_size > LONGEST_FILE:
        return _describe_unread(f"it has {found.st_size:,} bytes; the maximum is {LONGEST_FILE:,}")
    try:
        raw = _read_in(parent, name, found, LONGEST_FILE + 1)
    except NoRegularFile as error:
        return _describe_absent(str(error.strerror))
    except OSError as error:
        return _describe_unread(_explain_error(error))
    if len(raw) > LONGEST_FILE:
        return _describe_unread(f"it has more than {LONGEST_FILE:,} bytes, the maximum")
    try:
        return {"exists": True, "content": raw.decode()}
    except UnicodeDecodeError as error:
        return _describe_unread(_explain_encoding(raw, error))


def _explain_encoding(raw: bytes, error: UnicodeDecodeError) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16 and not UTF-8"
    if b"\0" in raw[:_BINARY_LOOK]:
        return "it is binary and not text"
    line = raw.count(b"\n", 0, error.start) + 1
    return f"line {line:,} has the byte {raw[error.start]:02x}, which is not UTF-8"


def _describe_unread(why: str) -> dict[str, Any]:
    return {"exists": True, "error": why}


def _explain_error(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def find_elsewhere(name: str, root: Path, expected: Path) -> list[str]:
    """Return at most `MOST_FOUND` files with the given name below `root`, without the expected file.

    Files in upper folders come first. The search has the limits of `walk`.
    """
    own = expected.absolute()
    found = (path for path in walk(root) if path.name == name and path.absolute() != own)
    return [str(path) for _, path in zip(range(MOST_FOUND), found, strict=False)]


def walk(root: Path, *, most: int = MOST_ENTRIES) -> Iterator[Path]:
    """Yield the files below `root`, those in upper folders first. Stop after `most` entries.

    Folders in `LEFT_OUT`, folders deeper than `MOST_DEPTH`, links to folders and unreadable folders are not searched.
    """
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
    """The files and folders below a folder, as paths relative to the folder, with `/`.

    `folders` maps each folder to its last change in nanoseconds. `complete` is false if the folder has more entries
    than the scan looks at.
    """

    files: set[str] = field(default_factory=set)
    folders: dict[str, int] = field(default_factory=dict)
    complete: bool = True


def scan_folder(root: Path) -> Scan:
    """Scan a folder, without following links to folders.

    Folders in `LEFT_OUT`, folders deeper than `MOST_SCANNED_DEPTH` and the content of unreadable subfolders are left
    out. Raises `OSError` if `root` can't be read.
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
            changed = _read_folder_change(entry)
            if changed is None:
                found.files.add(path)
            elif depth < MOST_SCANNED_DEPTH and entry.name not in LEFT_OUT:
                found.folders[path] = changed
                waiting.append((path, depth + 1))
    return found


def _read_folder_change(entry: "os.DirEntry[str]") -> int | None:
    """Return the time of a folder's last change in nanoseconds; None if the entry is not a folder."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns if entry.is_dir(follow_symlinks=False) else None
    except OSError:
        return None


def read_stamp(path: Path) -> Stamp | None:
    """Return the values that change with a file: time, size and identity; None if the file can't be looked up."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def last_change_above(path: Path) -> int:
    """Return when the nearest existing folder above a missing file last changed, in nanoseconds; 0 if there is none.

    The value stays the same until something changes in that folder.
    """
    for folder in path.parents:
        try:
            return folder.stat().st_mtime_ns
        except OSError:
            continue
    return 0
