"""`handoffaudit repair`: repairs a rejected document without a server."""

import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec
import orjson

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import Documents
from handoffaudit.cli.local_verdicts import Given, Judge, issue_lines, judge_for, read_policy, take_apart, wrap
from handoffaudit.cli.terminal import example, format_option, json_option, policy_option, root_option, strictness_option
from handoffaudit.validation.diff import Change, ChangeKind
from handoffaudit.validation.handoff_files import write_new
from handoffaudit.validation.json_text import loses_digits
from handoffaudit.validation.repair import (
    Attempt,
    Means,
    Repair,
    RepairStatus,
    budget_of,
    check_inside,
    repair,
    repair_to_dict,
    session_context,
)
from handoffaudit.validation.text import show
from handoffaudit.validation.verdict import Verdict


@dataclass(slots=True)
class SessionFiles:
    """A `FileStore` for the folders that documents name as `session_path`; relative folders start at `root`.

    The session's folder must exist, and its path must not contain `..`, because the sender of the document chose the
    path. An existing file is never overwritten: if it has other content, the new file gets `-2`, `-3`, … before
    `.json`.
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
        """Remove the files that this run created, except `name`, and each removed file's folder if it is empty.

        `name` is the file that the candidate refers to, or None.
        """
        for created, file in self._created.items():
            if created != name:
                file.unlink(missing_ok=True)
                with suppress(OSError):  # the folder may hold other files
                    file.parent.rmdir()


@click.command(
    name="repair",
    epilog=example(
        "handoffaudit repair handoff.json > repaired.json",
        "handoffaudit repair handoff.json --output repaired.json",
        "make-handoff | handoffaudit repair - --json",
    ),
)
@click.argument("file", metavar="FILE")
@click.option("--output", metavar="FILE", help="Write the candidate to this file instead of standard output.")
@format_option
@strictness_option
@policy_option
@root_option
@json_option
def command(
    file: str,
    output: str | None,
    form: str | None,
    type_policy: str | None,
    policy: tuple[str, ...],
    root: str | None,
    *,
    as_json: bool,
) -> None:
    """Repair a document as far as rules can: with defaults, with changes that findings propose, and by compression.

    The repaired candidate goes to standard output, its changes and its verdict to standard error. FILE holds one
    document or submission and is not changed. For a submission, only its document is printed. If payload.session is
    removed to meet the token budget, it is written to handoffs/session-context.json in the document's session_path, and
    the candidate refers to the file. If the folder session_path does not exist, the session is dropped.

    Exits with 0 if the candidate (or the unchanged document) is valid, with 1 if no rule could repair it.
    """
    sent = _read_only_document(file)
    # The output shows a token count only if the count is over the budget. The quick counter is exact for such counts.
    judge = judge_for(file, read_policy(policy, type_policy), form=form, root=root, counts=False)
    given = take_apart(sent, form)
    reading, verdict = judge.judge_given(given, sent)
    files = SessionFiles(judge.root)
    result = _repair(given, verdict, reading.format, judge, files)
    session = session_context(result, files.written)
    files.keep_only(session["path"] if session else None)
    candidate = _find_candidate(given, result)
    if output and candidate is not None:
        _write(output, candidate)
    if as_json:
        click.echo(json.dumps(repair_to_dict(result) | {"session_context": session}))
    else:
        if candidate is not None and not output:
            click.echo(candidate.decode())
        _tell(file, result, verdict)
        _tell_session(session, files)
    if candidate is None:
        sys.exit(1)


def _read_only_document(file: str) -> bytes:
    source = Documents(file)
    pieces = list(islice(source.pieces(), 2))
    if len(pieces) != 1 or pieces[0].text is None:
        many = "more than one document" if len(pieces) > 1 else "no document that is small enough to be read"
        raise Stop(f"{source.name} holds {many}: repair takes one.")
    return pieces[0].text


def _repair(given: Given, verdict: Verdict, form: str, judge: Judge, files: SessionFiles) -> Repair:
    record = given.read().record
    policy = judge.config.policy_for(record.handoff_type) if record else judge.config.other
    means = Means(
        budget=budget_of(policy, judge.counter, record.format if record else ""),
        now=datetime.now(UTC),
        new_id=lambda: str(uuid.uuid4()),
        store=files,
    )

    def judge_candidate(document: object) -> Verdict:
        source = given.envelope.agent or (record.source_agent_id if record else None)
        envelope = msgspec.structs.replace(given.envelope, adapt=False, agent=source)
        candidate = replace(given, document=document, format=form or given.format, envelope=envelope, sent=None)
        return judge.judge_given(candidate, b"")[1]

    # Repair the document that was judged. It differs from the sent document if the sent document had an older version
    # and was converted, or if the sent document is a report that contains the judged document.
    document, sent = record.document if record else None, given.sent or b""
    return repair(document, verdict, form, judge=judge_candidate, means=means, sent=sent)


def _find_candidate(given: Given, result: Repair) -> bytes | None:
    if result.status is RepairStatus.NOT_NEEDED:
        if given.sent and loses_digits(given.sent):
            return given.sent
        return orjson.dumps(given.document, option=orjson.OPT_INDENT_2)
    return orjson.dumps(result.repaired.document, option=orjson.OPT_INDENT_2) if result.repaired else None


def _write(output: str, candidate: bytes) -> None:
    try:
        Path(output).write_bytes(candidate + b"\n")
    except OSError as error:
        raise Stop(f"{output} can't be written ({error.strerror}).") from error


def _tell_session(session: dict[str, Any] | None, files: SessionFiles) -> None:
    """Tell where the removed session was written; the list of changes says why it was removed."""
    if session:
        click.echo(f"  payload.session was written to {files.root / session['path']}", err=True)


def _tell(file: str, result: Repair, verdict: Verdict) -> None:
    """Print the result for a person on standard error; standard output has only the candidate."""
    for line in repair_lines(file, result, verdict):
        click.echo(line, err=True)


def _check_folder(target: Path, named: str) -> None:
    """Refuse a path with the part `..`, a missing session folder, and a link in place of its handoffs folder.

    Raise `NotADirectoryError` for a missing session folder, and `PermissionError` in the other two cases.
    """
    folder, session = target.parent, target.parent.parent
    check_inside(named)
    if not session.is_dir():
        raise NotADirectoryError(0, f"there is no folder {session}")
    if folder.is_symlink():
        raise PermissionError(0, f"{folder} is a link")


def repair_lines(name: str, result: Repair, before: Verdict) -> Iterator[str]:
    """Yield the lines about a repair: the new score and outcome, the changes, and the findings that remain.

    If there is no candidate, yield the status with its reason, the notes of the attempts, and the findings.
    """
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
