"""Handoffs as files: their standard name, and writing them where nothing is overwritten."""

import os
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from handoffaudit.validation.codes import make
from handoffaudit.validation.issues import Issue

FALLBACK_TEXT: Final = "Using fallback location."

_FOLDER = "handoffs"
_UNSAFE = re.compile(r"(?:[^\w.-]|\.(?=[^\w]))+")
_LONGEST_NAME = 100  # bytes: file systems take 255 for both and the rest
_NOBODY = "unknown"
_MOST_OF_A_NAME = 1000


@dataclass(frozen=True, slots=True)
class Written:
    """Where a handoff was written. `issue` is set where that is not where it belongs."""

    path: Path
    issue: Issue | None = None


def file_name(source: str, target: str, at: datetime) -> str:
    """`{source}-to-{target}-{YYYYMMDD}T{HHMMSS}Z.json`, in UTC; what could lead out of a folder is left out of names.

    >>> file_name("researcher", "../../etc/writer", datetime(2026, 2, 1, 8, 0, 5, tzinfo=UTC))
    'researcher-to-etc-writer-20260201T080005Z.json'
    """
    return f"{_safe(source)}-to-{_safe(target)}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}.json"


def handoff_path(session_path: str | Path, source: str, target: str, at: datetime) -> Path:
    """`{session_path}/handoffs/` and the standard name."""
    return Path(session_path) / _FOLDER / file_name(source, target, at)


def write_handoff(
    content: bytes,
    session_path: str | Path,
    source: str,
    target: str,
    at: datetime,
    *,
    root: Path | None = None,
    temporary: Path | None = None,
) -> Written:
    """Writes `content` to `handoff_path`, or else into the temporary folder, and says so.

    With a `root`, the session path is taken from there and may not lead out of it. A file that is there is never
    overwritten: the same content is left as it is, other content gets `-2`, `-3`, … before `.json`. Raises OSError
    where not even the temporary folder can be written to.
    """
    path = handoff_path(session_path, source, target, at)
    try:
        return Written(write_new(content, _inside(root, path)))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the session path
        said = error.strerror if isinstance(error, OSError) else None
        reason = said or str(error) or "it could not be written"
    folder = temporary or Path(tempfile.gettempdir())
    elsewhere = write_new(content, folder / path.name)
    return Written(elsewhere, _fallback(path, elsewhere, reason))


def _safe(name: str) -> str:
    """Letters, digits, `_`, `.` and `-`; no dots in front, none in a row."""
    kept = _UNSAFE.sub("-", name).strip("-.")
    short = kept[:_LONGEST_NAME].encode()[:_LONGEST_NAME].decode(errors="ignore")
    return short.rstrip("-.") or _NOBODY


def _inside(root: Path | None, path: Path) -> Path:
    if root is None:
        return path
    held = root.resolve()
    wanted = (held / path).resolve()
    if not wanted.is_relative_to(held):
        raise PermissionError(0, "the session path leads out of its root folder")
    return wanted


def write_new(content: bytes, path: Path) -> Path:
    """Write a file and return its path, which is another one where the name is taken by other content.

    Neither a file nor a link that is there is written through.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, _MOST_OF_A_NAME + 1):
        free = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            # exclusive, so that neither a file nor a link that somebody laid out is written through
            handle = os.open(free, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if _holds(free, content):
                return free
            continue
        _fill(handle, free, content)
        return free
    raise FileExistsError(0, f"{_MOST_OF_A_NAME} files of that name are there already")


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and path.read_bytes() == content
    except OSError:
        return False


def _fill(handle: int, path: Path, content: bytes) -> None:
    """All of it or no file."""
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _fallback(wanted: Path, written: Path, reason: str) -> Issue:
    return make(
        "files.fallback_location",
        location=("handoff", "source", "session_path"),
        message=f'{FALLBACK_TEXT} "{wanted}" could not be written ({reason}); the handoff is in "{written}".',
        expected=str(wanted),
        actual=str(written),
    )
