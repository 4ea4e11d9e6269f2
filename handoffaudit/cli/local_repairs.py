"""Results of a repair: the lines for the terminal, and the session files beside the sender's files."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from handoffaudit.cli.local_verdicts import issue_lines, wrap
from handoffaudit.validation.diff import Change, ChangeKind
from handoffaudit.validation.handoff_files import write_new
from handoffaudit.validation.repair import Attempt, Repair, RepairStatus, check_inside
from handoffaudit.validation.text import show
from handoffaudit.validation.verdict import Verdict


@dataclass(slots=True)
class SessionFiles:
    """A `FileStore` for the folders that documents name as `session_path`; relative folders start at `root`.

    The session's folder must exist, and its path must not contain `..`, because the sender of the document chose the
    path. An existing file is never overwritten: other content gets `-2`, `-3`, … before `.json`.
    """

    root: Path
    written: dict[str, bytes] = field(default_factory=dict)
    _created: dict[str, Path] = field(default_factory=dict)

    def write(self, path: str, content: bytes) -> str:
        target = self.root / path
        _check_folder(target, path)
        there = set(target.parent.iterdir()) if target.parent.exists() else set()
        file = write_new(content, target)
        name = f"{path.rpartition('/')[0]}/{file.name}"
        self.written[name] = content
        if file not in there:
            self._created[name] = file
        return name

    def keep_only(self, name: str | None) -> None:
        """Remove the files that this run created, except the file that the candidate refers to."""
        for created, file in self._created.items():
            if created != name:
                file.unlink(missing_ok=True)
                with suppress(OSError):  # the folder may hold other files
                    file.parent.rmdir()


def _check_folder(target: Path, named: str) -> None:
    """Refuse a session folder that is missing or leads upwards, and a link in place of its handoffs folder."""
    folder, session = target.parent, target.parent.parent
    check_inside(named)
    if not session.is_dir():
        raise NotADirectoryError(0, f"there is no folder {session}")
    if folder.is_symlink():
        raise PermissionError(0, f"{folder} is a link")


def repair_lines(name: str, result: Repair, before: Verdict) -> Iterator[str]:
    """Yield the changes and the new verdict; if the repair failed, the remaining findings."""
    if result.repaired:
        yield from _lines_of_attempt(name, result.repaired, before)
        return
    colour = "green" if result.status is RepairStatus.NOT_NEEDED else "red"
    status = click.style(result.status.value.replace("_", " "), fg=colour, bold=True)
    yield f"{status}  {name} · {result.why}"
    for attempt in result.attempts:
        if attempt.note:
            yield wrap(f"{attempt.name}: {attempt.note}", indent="  ")
    yield from issue_lines(result.attempts[-1].verdict if result.attempts else before)


def _lines_of_attempt(name: str, attempt: Attempt, before: Verdict) -> Iterator[str]:
    after = attempt.verdict
    scores = f"score {before.quality_score:.2f} → {after.quality_score:.2f}"
    status = click.style("repaired", fg="green", bold=True)
    yield f"{status}  {name} · {after.outcome.value} now · {scores} · by {attempt.name}"
    for change in attempt.changes:
        yield wrap(_line_of_change(change), indent="  ")
    yield from issue_lines(after)


def _line_of_change(change: Change) -> str:
    why = f" ({change.why})" if change.why else ""
    place = change.field_path or "the document"
    match change.kind:
        case ChangeKind.ADDED:
            return f"+ {place} = {show(change.after)}{why}"
        case ChangeKind.REMOVED:
            return f"- {place}, {show(change.before)}{why}"
        case _:
            return f"~ {place}: {show(change.before)} → {show(change.after)}{why}"
