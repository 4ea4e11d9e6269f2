"""What lies below a folder at one moment."""

import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from handoffaudit.cli.reporting.looking import LEFT_OUT

MOST_ENTRIES: Final = 100_000
MOST_DEPTH: Final = 24

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Scan:
    """Paths below the folder, with `/`. `folders` with when they were last changed, in nanoseconds; `complete`: there
    were not more entries than are looked at."""

    files: set[str] = field(default_factory=set)
    folders: dict[str, int] = field(default_factory=dict)
    complete: bool = True


def scan(root: Path) -> Scan:
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
        if seen > MOST_ENTRIES:
            found.complete = False
            return found
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            changed = _folder_changed(entry)
            if changed is None:
                found.files.add(path)
            elif depth < MOST_DEPTH and entry.name not in LEFT_OUT:
                found.folders[path] = changed
                waiting.append((path, depth + 1))
    return found


def _folder_changed(entry: "os.DirEntry[str]") -> int | None:
    """When a folder was last changed; None for what is no folder."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns if entry.is_dir(follow_symlinks=False) else None
    except OSError:
        return None


def stamp(path: Path) -> Stamp | None:
    """What changes with the file: its time, size and identity. None where there is no file that can be looked up."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def changed_at(path: Path) -> int:
    """When the nearest folder above a file that never came was last changed, in nanoseconds: the same each time it is
    asked, as long as nothing happens there."""
    for folder in path.parents:
        try:
            return folder.stat().st_mtime_ns
        except OSError:
            continue
    return 0
