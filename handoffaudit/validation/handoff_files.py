"""Files with one handoff each: their standard name, and a function that writes them without overwriting."""

import os
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from handoffaudit.validation.issues import Code, Issue, Severity, make

FALLBACK_LOCATION: Final = Code(
    "files.fallback_location",
    Severity.WARNING,
    "Written to the fallback location",
    what="The handoff could not be written under its session path, so it was written to the system's temporary folder.",
    why="The system empties the temporary folder at some point, and the receiver looks under the session path.",
    hint="Make the session's folder writable, and move the file there before the system empties the temporary folder.",
    layer="references",
)


FALLBACK_TEXT: Final = "Using fallback location."

_FOLDER = "handoffs"
_UNSAFE = re.compile(r"(?:[^\w.-]|\.(?=[^\w]))+")
# In bytes: file systems allow 255 bytes for the whole file name, which contains both agents' names.
_LONGEST_NAME = 100
_NOBODY = "unknown"
_MOST_OF_A_NAME = 1000


@dataclass(frozen=True, slots=True)
class Written:
    """The path that a handoff was written to.

    `issue` is set if the path is the fallback location.
    """

    path: Path
    issue: Issue | None = None


def file_name(source: str, target: str, at: datetime) -> str:
    """Return `{source}-to-{target}-{YYYYMMDD}T{HHMMSS}Z.json`, in UTC.

    In the names of the agents, letters, digits, `_` and `-` stay, and so does a dot before a letter, a digit or `_`.
    Each run of other characters becomes one `-`. Each name loses `-` and `.` at both ends, and is cut to 100 bytes. An
    empty name becomes `unknown`.

    >>> file_name("researcher", "../../etc/writer", datetime(2026, 2, 1, 8, 0, 5, tzinfo=UTC))
    'researcher-to-etc-writer-20260201T080005Z.json'
    """
    return f"{_safe(source)}-to-{_safe(target)}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}.json"


def handoff_path(session_path: str | Path, source: str, target: str, at: datetime) -> Path:
    """Return `{session_path}/handoffs/` followed by the standard name."""
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
    """Write `content` to `handoff_path`, or else into the temporary folder, and report the fallback as an issue.

    With a `root`, the session path is relative to the root and must not lead outside it. An existing file is never
    overwritten. If an existing file has the same content, its path is returned. If it has other content, the new name
    gets `-2`, `-3`, … before `.json`. Raises OSError if the file cannot be written into the temporary folder, either.
    """
    path = handoff_path(session_path, source, target, at)
    try:
        return Written(write_new(content, _inside(root, path)))
    # A NUL in the session path raises ValueError.
    except (OSError, ValueError) as error:
        message = error.strerror if isinstance(error, OSError) else None
        reason = message or str(error) or "it could not be written"
    folder = temporary or Path(tempfile.gettempdir())
    elsewhere = write_new(content, folder / path.name)
    return Written(elsewhere, _fallback(path, elsewhere, reason))


def _safe(name: str) -> str:
    """Return the name with only letters, digits, `_`, `.` and `-`, without leading or repeated dots."""
    kept = _UNSAFE.sub("-", name).strip("-.")
    short = kept[:_LONGEST_NAME].encode()[:_LONGEST_NAME].decode(errors="ignore")
    return short.rstrip("-.") or _NOBODY


def _inside(root: Path | None, path: Path) -> Path:
    if root is None:
        return path
    held = root.resolve()
    wanted = (held / path).resolve()
    if not wanted.is_relative_to(held):
        raise PermissionError(0, "the session path leads outside its root folder")
    return wanted


def write_new(content: bytes, path: Path) -> Path:
    """Write a file and return its path, which differs from `path` if a file with other content has that name.

    The function never writes to an existing file or link. Raises FileExistsError if 1,000 files of that name have other
    content, and OSError if the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, _MOST_OF_A_NAME + 1):
        free = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            # Exclusive creation keeps the write from following a file or a link that somebody placed there.
            handle = os.open(free, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if _holds(free, content):
                return free
            continue
        _fill(handle, free, content)
        return free
    raise FileExistsError(0, f"{_MOST_OF_A_NAME} files of that name already exist")


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and path.read_bytes() == content
    except OSError:
        return False


def _fill(handle: int, path: Path, content: bytes) -> None:
    """Write the whole content, or remove the file."""
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _fallback(wanted: Path, written: Path, reason: str) -> Issue:
    return make(
        FALLBACK_LOCATION,
        location=("handoff", "source", "session_path"),
        message=f'{FALLBACK_TEXT} "{wanted}" could not be written ({reason}); the handoff is in "{written}".',
        expected=str(wanted),
        actual=str(written),
    )
