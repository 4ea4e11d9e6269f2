"""The references layer: the files that the document refers to, whether they exist, and whether they will last."""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Reference
from handoffaudit.validation.issues import Code, Issue, Severity, limit_issues, make
from handoffaudit.validation.layers.base import CouldNotRunError, FileView, NotCheckedError, Subject
from handoffaudit.validation.text import pluralize, show_path

name: Final = "references"

MISSING_FILE: Final = Code(
    "references.missing_file",
    Severity.WARNING,
    "Missing file",
    what="A file that the handoff refers to does not exist.",
    why="The next agent cannot open the file, and may invent its content.",
    hint="Create the file before the handoff, or correct its path.",
)
EPHEMERAL: Final = Code(
    "references.ephemeral",
    Severity.INFO,
    "Temporary file",
    what="A file that the handoff refers to is in a temporary folder and may be deleted before it is needed.",
    why="The system empties temporary folders, and other machines do not share them.",
    hint="Move the file to a permanent folder, such as the session's folder, and refer to it there.",
)
CODES: Final = (MISSING_FILE, EPHEMERAL)

MOST_CHECKED: Final = 200
_UNSEEN: Final = "the existence of the files was not checked: the server cannot see the sender's files"
_OUTSIDE: Final = "the existence of the files was not checked: {} are outside the allowed folders"
_TEMPORARY = (
    "/tmp/",  # noqa: S108  (looked for, not written to)
    "/var/tmp/",  # noqa: S108
    "/private/tmp/",
    "/var/folders/",
    "/dev/shm/",  # noqa: S108
    "c:/temp/",
    "c:/tmp/",
    "c:/windows/temp/",
    "%temp%/",
    "%tmp%/",
    "$tmpdir/",
    "${tmpdir}/",
    "$env:temp/",
)
# The machine of a file URI can be absent or localhost (file:/tmp, file://localhost/tmp); a drive can follow a slash.
_FILE_URI: Final = re.compile(r"file:(?://(?:localhost(?=/))?)?(?:/(?=[a-z]:/))?")
_TEMPORARY_INSIDE = "/appdata/local/temp/"


def skip(subject: Subject) -> str | None:
    found = BY_NAME[subject.record.format].references(subject.record.document)
    return None if any(True for _ in found) else "the handoff names no files"


def check(subject: Subject) -> Iterable[Issue]:
    """Yield the findings about the paths, and about missing files if the sender's files can be seen.

    Raises `NotCheckedError` if no file can be seen, and `CouldNotRunError` if the lookup of a file fails.
    """
    named = list(BY_NAME[subject.record.format].references(subject.record.document))
    yield from limit_issues(chain.from_iterable(_ephemeral(reference) for reference in named))
    if subject.files is None:
        raise NotCheckedError(_UNSEEN)
    looked_for = named[:MOST_CHECKED]
    outside: list[Reference] = []
    yield from limit_issues(_report_missing(looked_for, subject.files, outside))
    if len(outside) == len(looked_for):
        raise NotCheckedError(
            _OUTSIDE.format("all files" if len(looked_for) == len(named) else f"the first {MOST_CHECKED} files")
        )
    subject.findings.notes[name] = _describe_unchecked(len(outside), len(named) - len(looked_for))


def _ephemeral(reference: Reference) -> Iterable[Issue]:
    plain = reference.path[:400].replace("\\", "/").lower()
    uri = _FILE_URI.match(plain)
    path = plain[uri.end() :] if uri else plain
    if f"{path}/".startswith(_TEMPORARY) or _TEMPORARY_INSIDE in path:
        yield make(
            EPHEMERAL,
            location=reference.location,
            message=f"{show_path(reference.path)} is under a temporary folder and may be gone when it is read.",
            actual=reference.path,
        )


def _exists(reference: Reference, files: FileView) -> bool | None:
    try:
        # An empty path would be the folder itself. No file system allows NUL in a name.
        return bool(reference.path) and "\0" not in reference.path and files.exists(reference.path)
    except OSError as error:
        reason = error.strerror or "input/output error"
        raise CouldNotRunError(f"the files could not be looked up: {reason}") from error


def _report_missing(named: Iterable[Reference], files: FileView, outside: list[Reference]) -> Iterable[Issue]:
    """Yield a finding for each file that does not exist. Append files outside the allowed folders to `outside`."""
    for reference in named:
        exists = _exists(reference, files)
        if exists is None:
            outside.append(reference)
        elif not exists:
            yield make(
                MISSING_FILE,
                location=reference.location,
                message=f"The file {show_path(reference.path)} does not exist."
                if reference.path
                else "The path of the file is empty.",
                actual=reference.path,
            )


def _describe_unchecked(outside: int, over: int) -> str:
    """Describe the files that were not checked.

    Without this note, a passed layer would suggest that all files exist.
    """
    parts = []
    if outside:
        parts.append(f"{pluralize(outside, 'file')} outside the allowed folders")
    if over:
        parts.append(f"{pluralize(over, 'file')} beyond the first {MOST_CHECKED}")
    return f"not checked: {', '.join(parts)}" if parts else ""
