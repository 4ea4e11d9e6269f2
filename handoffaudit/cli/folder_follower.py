"""Follower of a run's folder: expected handoff files, files that are due, and the watcher that reports them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click

from handoffaudit.cli import file_lookup
from handoffaudit.cli.file_lookup import Scan, Stamp, look, read_bytes
from handoffaudit.cli.report_receivers import (
    Kept,
    LocalReceiver,
    Receiver,
    Refused,
    ReportSubject,
    explain_answer,
    make_report,
)

PLACEHOLDERS: Final = ("run", "phase", "agent", "runtime")

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\{([^{}]*)\}|[{}]|[^*{}]+")


class BadPattern(ValueError):
    """A pattern is invalid; the message says what is wrong and how to fix it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of paths relative to the folder.

    In `text`, `*` and placeholders such as `{agent}` match a name or a part of it, and `**` matches any folders.
    """

    text: str
    _whole: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> "Pattern":
        """Compile a pattern. Raises `BadPattern`."""
        if not text or text.startswith("/") or ".." in PurePosixPath(text).parts or text.endswith("/"):
            raise BadPattern(
                f"{text!r} is not a path below the folder: write it like {{phase}}/{{agent}}/handoff.json."
            )
        return cls(text, _compile(text))

    def names(self, path: str) -> Mapping[str, str] | None:
        """Return the values of the placeholders in a path; None if the path does not match."""
        found = self._whole.fullmatch(path)
        return found.groupdict() if found else None

    @property
    def file_name(self) -> str:
        """Return the name of the file; an empty text if the name varies."""
        name = PurePosixPath(self.text).name
        return "" if re.search(r"[*{}]", name) else name

    def folder(self) -> "Pattern | None":
        """Return the pattern of the folders in which a file is expected.

        Return None if the folders have no placeholder in the pattern, or if the file name varies.
        """
        above = str(PurePosixPath(self.text).parent)
        return Pattern(above, _compile(above)) if self.file_name and "{" in above else None


def _compile(text: str) -> re.Pattern[str]:
    written, named = "", set[str]()
    for token in _TOKEN.finditer(text):
        name = token[1]
        if name is not None or token[0] in "{}":
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
                raise BadPattern(f"{text!r} has {token[0]!r}, which is not a placeholder: use {known}.")
            written += f"(?P={name})" if name in named else f"(?P<{name}>[^/]+)"
            named.add(name)
        else:
            written += {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*"}.get(token[0]) or re.escape(token[0])
    return re.compile(written)


def owner_of(path: str, names: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return run, phase, agent and runtime of a file.

    Names that no placeholder provides come from the folders above the file: the nearest folder is the agent, the next
    folder the phase. A single folder is both. `folder` is the name of the followed folder: the run has this name, and
    so do the agent and the phase of a file directly in the folder. Without its placeholder, the runtime is empty.
    """
    above = PurePosixPath(path).parts[:-1]
    agent = above[-1] if above else folder
    phase = above[-2] if len(above) > 1 else agent
    return {"run": folder, "phase": phase, "agent": agent, "runtime": ""} | {
        name: value for name, value in names.items() if value
    }


MOST_NAMESAKES: Final = 50


@dataclass(frozen=True, slots=True)
class Due:
    """A file to report: a file that has not changed for a while, or an expected file that did not appear in time.

    `names` are the values of the placeholders in the path. For a missing file, `candidates` are files with its name at
    other places.
    """

    path: str
    iteration: int
    names: Mapping[str, str]
    missing: bool = False
    candidates: tuple[str, ...] = ()


@dataclass(slots=True)
class _Known:
    """The state of a path; `since` is when its current stamp was first seen."""

    stamp: Stamp | None = None
    since: float = 0.0
    reported: Stamp | None = None
    iteration: int = 0


@dataclass(slots=True)
class _ExpectedFile:
    """A path at which a file is expected.

    `changed` is the last change of its folder in nanoseconds, and `since` is when the follower first saw this change.
    """

    changed: int
    since: float
    is_reported: bool = False


@dataclass(slots=True)
class Follower:
    """The files of a folder that are expected, seen and reported.

    `settle` is how many seconds a file must stay unchanged. An expected file counts as missing after `timeout` seconds
    without a change in its folder; None means never. `expected` lists paths below the folder.
    """

    root: Path
    pattern: Pattern
    expected: tuple[str, ...] = ()
    settle: float = 0.5
    timeout: float | None = None
    _known: dict[str, _Known] = field(default_factory=dict)
    _places: dict[str, _ExpectedFile] = field(default_factory=dict)
    _reported: dict[Stamp, str] = field(default_factory=dict)

    def due(self, now: float, *, all_now: bool = False) -> Iterator[Due]:
        """Yield the files to report at `now`, a moment of a monotonic clock.

        With `all_now`, do not wait for files to settle or to time out; if there is no `timeout`, only files in
        `expected` can be missing. Raises `OSError` if the folder can't be read.
        """
        found = file_lookup.scan_folder(self.root)
        there = {path: names for path in found.files if (names := self._match(path)) is not None}
        for gone in self._known.keys() - there.keys():
            self._known[gone].stamp = None
        for path in sorted(there):
            if self._is_due(path, found, now, all_now=all_now):
                yield Due(path, self._find_iteration(path), there[path])
        yield from self._list_missing(found, there.keys(), now, all_now=all_now)

    def mark_reported(self, due: Due, iteration: int | None = None) -> None:
        """Mark a file as reported; `iteration` is the iteration under which the receiver knows the file."""
        if due.missing:
            self._places[due.path].is_reported = True
            return
        known = self._known[due.path]
        known.reported, known.iteration = known.stamp, iteration or due.iteration
        if known.stamp:
            self._reported[known.stamp] = due.path

    def _match(self, path: str) -> Mapping[str, str] | None:
        names = self.pattern.names(path)
        return {} if names is None and path in self.expected else names

    def _is_due(self, path: str, found: Scan, now: float, *, all_now: bool) -> bool:
        stamp = file_lookup.read_stamp(self.root / path)
        known = self._known.setdefault(path, _Known())
        if stamp is None or stamp != known.stamp:
            known.stamp, known.since = stamp, now
        if stamp is None or stamp == known.reported or self._was_moved(stamp, path, found):
            return False
        return all_now or now - known.since >= self.settle

    def _was_moved(self, stamp: Stamp, path: str, found: Scan) -> bool:
        """Return whether the same file was reported under another path that no longer exists."""
        before = self._reported.get(stamp)
        return before is not None and before != path and before not in found.files

    def _list_missing(self, found: Scan, there: Iterable[str], now: float, *, all_now: bool) -> Iterator[Due]:
        wanted = {path: self._match(path) or {} for path in self.expected} | self._list_expected(found)
        for path, names in sorted(wanted.items()):
            if path in there or path in found.files:
                self._places.pop(path, None)
                continue
            changed = found.folders.get(str(PurePosixPath(path).parent), 0)
            place = self._places.setdefault(path, _ExpectedFile(changed, now))
            if place.changed != changed:
                place.changed, place.since = changed, now
            over = all_now or (self.timeout is not None and now - place.since >= self.timeout)
            if over and not place.is_reported:
                yield Due(
                    path, self._find_iteration(path), names, missing=True, candidates=self._list_namesakes(path, found)
                )

    def _find_iteration(self, path: str) -> int:
        known = self._known.get(path)
        return known.iteration + 1 if known else 1

    def _list_expected(self, found: Scan) -> dict[str, Mapping[str, str]]:
        """Return the files that are expected because their folders exist; none without a `timeout`."""
        folder = self.pattern.folder()
        if folder is None or self.timeout is None:
            return {}
        named = {path: names for path in found.folders if (names := folder.names(path)) is not None}
        return {f"{path}/{self.pattern.file_name}": names for path, names in named.items()}

    def _list_namesakes(self, path: str, found: Scan) -> tuple[str, ...]:
        """Return files with the same name at places where no other agent's file is expected."""
        name = PurePosixPath(path).name
        others = (one for one in found.files if PurePosixPath(one).name == name and one not in self.expected)
        return tuple(sorted(one for one in others if not self.pattern.names(one)))[:MOST_NAMESAKES]


RETRY_SECONDS = 10.0

MOST_RESPONSE = 64 * 1024 * 1024

# The end of the year 9998.
_LATEST_SECONDS = 253_370_764_799


@dataclass(slots=True)
class Watcher:
    """A watcher that reports the files of a run's folder.

    If `run` or `runtime` is not empty, it takes precedence over the name in the path. `response` is the name of the
    response files beside the handoff files.
    """

    follower: Follower
    to: Receiver
    run: str = ""
    runtime: str = ""
    response: str = ""
    as_json: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _retry_at: float = 0.0
    _said: str = ""

    def look(self, now: float, *, all_now: bool = False) -> None:
        """Report the files that are due, and send the waiting reports to the server again.

        A folder that can't be read causes one warning, and the next call scans it again.
        """
        try:
            for due in self.follower.due(now, all_now=all_now):
                self._report(due)
        except OSError as error:
            self._warn(f"{self.follower.root} can't be read ({error.strerror}).")
        if self.counts["kept"] and now >= self._retry_at:
            self._retry_at = now + RETRY_SECONDS
            try:
                self.counts["kept"] = self.to.retry()
            except OSError as error:
                self._warn(f"The reports that wait for the server were not sent: {error}.")

    def summary(self) -> str:
        left = f"; {self.counts['kept']} wait for the server" if self.counts["kept"] else ""
        left += f"; {self.counts['refused']} refused" if self.counts["refused"] else ""
        parts = ", ".join(f"{self.counts[name]} {name}" for name in ("used", "fallback", "failed"))
        return f"{sum(self.counts[name] for name in ('used', 'fallback', 'failed'))} reported: {parts}{left}."

    def _report(self, due: Due) -> None:
        made = self._make_document(due)
        if made is None:
            return
        try:
            answer = self._send(made)
        except Refused as refused:
            self._warn(f"{made['expected_path']} was not reported: {refused}")
            self.counts["refused"] += 1
            self.follower.mark_reported(due)
            return
        iteration = answer.get("iteration")
        self.follower.mark_reported(due, int(iteration) if iteration else None)
        self.counts["failed" if answer["failed"] else "fallback" if answer["reason"] else "used"] += 1
        self._tell(answer)

    def _send(self, made: dict[str, Any]) -> dict[str, Any]:
        """Report a file and return the answer; if the server is away, return the local judgement. Raises `Refused`."""
        try:
            return self.to.report(made)
        except Kept as kept:
            self._warn(str(kept))
            self.counts["kept"] += 1
            return LocalReceiver().report(made)

    def _make_document(self, due: Due) -> dict[str, Any] | None:
        """Return the report on a file; None if the file is no longer there."""
        path = self.follower.root / due.path
        looked = look(path, self.follower.root)
        if not due.missing and looked.changed_ns is None:
            return None
        names = owner_of(due.path, due.names, self.follower.root.absolute().name)
        about = ReportSubject(
            run_id=self.run or names["run"],
            agent=names["agent"],
            phase=names["phase"],
            path=due.path,
            runtime=self.runtime or names["runtime"],
            iteration=due.iteration,
        )
        changed = looked.changed_ns or file_lookup.last_change_above(path)
        # An agent can set the times of its files, also to times that `datetime` cannot represent.
        at = datetime.fromtimestamp(min(max(changed / 1e9, 0), _LATEST_SECONDS), UTC)
        return make_report(about, looked, at, response=self._read_response(path), elsewhere=list(due.candidates))

    def _read_response(self, path: Path) -> str | None:
        if not self.response:
            return None
        try:
            return read_bytes(path.parent / self.response, self.follower.root, MOST_RESPONSE).decode(errors="replace")
        except OSError:
            return None

    def _tell(self, answer: dict[str, Any]) -> None:
        click.echo(json.dumps(answer) if self.as_json else answer["line"])
        if answer["reasons"] and not self.as_json:
            for line in explain_answer(answer):
                click.echo(line, err=True)

    def _warn(self, message: str) -> None:
        if message != self._said:
            click.echo(f"Warning: {' '.join(message.split())}", err=True)
        self._said = message
