"""Do the files that the document refers to exist, and will they last?"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from handoffaudit.validation.bounding import bounded
from handoffaudit.validation.codes import make
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Reference
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers.base import CouldNotRunError, Subject
from handoffaudit.validation.ports import FileView
from handoffaudit.validation.text import shown

name: Final = "references"
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
_TEMPORARY_INSIDE = "/appdata/local/temp/"


def skip(subject: Subject) -> str | None:
    found = BY_NAME[subject.record.format].references(subject.record.document)
    return None if any(True for _ in found) else "the handoff names no files"


def check(subject: Subject) -> Iterable[Issue]:
    """Without a view of the sender's files only the paths themselves are judged."""
    named = list(BY_NAME[subject.record.format].references(subject.record.document))
    yield from bounded(chain.from_iterable(_ephemeral(reference) for reference in named))
    if subject.files is None:
        subject.findings.notes[name] = "the sender's files can't be seen here: whether they exist was not checked"
    else:
        yield from bounded(_missing(named, subject.files))


def _ephemeral(reference: Reference) -> Iterable[Issue]:
    path = reference.path[:400].replace("\\", "/").lower().removeprefix("file://")
    if f"{path}/".startswith(_TEMPORARY) or _TEMPORARY_INSIDE in path:
        yield make(
            "references.ephemeral",
            location=reference.location,
            message=f"{shown(reference.path)} is under a temporary folder and may be gone when it is read.",
            actual=reference.path,
        )


def _missing(named: list[Reference], files: FileView) -> Iterable[Issue]:
    for reference in named:
        try:
            # no file system has a NUL in a name, and asking for one raises
            found = "\0" not in reference.path and files.exists(reference.path)
        except OSError as error:
            said = error.strerror or "input/output error"
            raise CouldNotRunError(f"the files could not be looked up: {said}") from error
        if not found:
            yield make(
                "references.missing_file",
                location=reference.location,
                message=f"The file {shown(reference.path)} does not exist.",
                actual=reference.path,
            )
