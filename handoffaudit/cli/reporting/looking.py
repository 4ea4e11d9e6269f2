"""What is found where a handoff file is expected, and files of its name elsewhere."""

import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handoffaudit.cli.reporting.folder_access import (
    LEAVES,
    LeavesFolder,
    NoRegularFile,
    found_below,
    read_below,
    read_in,
)

LONGEST_FILE = 512 * 1024
MOST_ENTRIES = 20_000
MOST_DEPTH = 12
MOST_FOUND = 50
LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})
_BINARY_LOOK = 8192


@dataclass(frozen=True, slots=True)
class Looked:
    """`file` as a report has it. `changed_ns` is when the file was last changed, None where there is none."""

    file: dict[str, Any]
    changed_ns: int | None = None


def look(path: Path, folder: Path | None = None) -> Looked:
    """Read the file as it is; what can't be read is said in words and never raised.

    No link out of `folder` is followed, by default the one that the file is in; nor are pipes and devices opened.
    """
    folder, below = _below(path, folder)
    try:
        with found_below(folder, below) as (parent, name, found):
            return _found(parent, name, found)
    except LeavesFolder as error:
        return Looked(_unread(LEAVES), error.changed_ns)
    except FileNotFoundError:
        return _absent(f"it is a symbolic link to {path.readlink()}, which is not there" if path.is_symlink() else "")
    except OSError as error:
        return _absent(f"it can't be looked up: {_told(error)}")


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


def _found(parent: int, name: str, found: os.stat_result) -> Looked:
    try:
        return Looked(_read(parent, name, found), found.st_mtime_ns)
    except NoRegularFile as error:
        return Looked(_absent(str(error.strerror)).file, None if stat.S_ISDIR(found.st_mode) else found.st_mtime_ns)


def _absent(why: str) -> Looked:
    return Looked({"exists": False} | ({"error": why} if why else {}))


def _read(parent: int, name: str, found: os.stat_result) -> dict[str, Any]:
    if stat.S_ISREG(found.st_mode) and found.st_size > LONGEST_FILE:
        return _unread(f"it has {found.st_size:,} bytes, and {LONGEST_FILE:,} are the most")
    try:
        raw = read_in(parent, name, found, LONGEST_FILE + 1)
    except NoRegularFile:
        raise
    except OSError as error:
        return _unread(_told(error))
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


def _told(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def elsewhere(name: str, root: Path, expected: Path) -> list[str]:
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
