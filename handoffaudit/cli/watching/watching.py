"""The loop: what is due is reported, what could not be sent is tried again, and all of it is counted."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from handoffaudit.cli.reporting.documents import About, document
from handoffaudit.cli.reporting.looking import look, read_bytes
from handoffaudit.cli.reporting.receivers import Here, Kept, Receiver, Refused
from handoffaudit.cli.reporting.telling import told
from handoffaudit.cli.watching import scanning
from handoffaudit.cli.watching.following import Due, Follower
from handoffaudit.cli.watching.patterns import whose

RETRY_SECONDS = 10.0
MOST_RESPONSE = 64 * 1024 * 1024


@dataclass(slots=True)
class Watching:
    """`run` and `runtime` stand for what the paths do not say; `response` names files beside handoff files."""

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
        """Once around. A folder that can't be read now is told once, and looked at again later."""
        try:
            for due in self.follower.due(now, all_now=all_now):
                self._report(due)
        except OSError as error:
            self._warn(f"{self.follower.root} can't be read ({error.strerror}).")
        if self.counts["kept"] and now >= self._retry_at:
            self._retry_at = now + RETRY_SECONDS
            self.counts["kept"] = self.to.retry()

    def follow(self, clock: Callable[[], float], sleep: Callable[[float], None], every: float) -> None:
        """Until it is interrupted."""
        while True:
            self.look(clock())
            sleep(every)

    def summary(self) -> str:
        kept = f"; {self.counts['kept']} wait for the server" if self.counts["kept"] else ""
        parts = ", ".join(f"{self.counts[name]} {name}" for name in ("used", "fallback", "failed"))
        return f"{sum(self.counts[name] for name in ('used', 'fallback', 'failed'))} reported: {parts}{kept}."

    def _report(self, due: Due) -> None:
        made = self._document(due)
        if made is None:
            return
        try:
            answer = self._answer(made)
        except Refused as refused:
            self._warn(f"{made['expected_path']} was not reported: {refused}")
            self.follower.took(due)
            return
        iteration = answer.get("iteration")
        self.follower.took(due, int(iteration) if iteration else None)
        self.counts["failed" if answer["failed"] else "fallback" if answer["reason"] else "used"] += 1
        self._tell(answer)

    def _answer(self, made: dict[str, Any]) -> dict[str, Any]:
        """Where the server is away, what is judged here stands in for its answer. Raises Refused."""
        try:
            return self.to.report(made)
        except Kept as kept:
            self._warn(str(kept))
            self.counts["kept"] += 1
            return Here().report(made)

    def _document(self, due: Due) -> dict[str, Any] | None:
        """None where the file went away, or was changed again, meanwhile."""
        path = self.follower.root / due.path
        looked = look(path, self.follower.root)
        if not due.missing and looked.changed_ns is None:
            return None
        names = whose(due.path, due.names, self.follower.root.absolute().name)
        about = About(
            run_id=self.run or names["run"],
            agent=names["agent"],
            phase=names["phase"],
            path=due.path,
            runtime=self.runtime or names["runtime"],
            iteration=due.iteration,
        )
        changed = looked.changed_ns or scanning.changed_at(path)
        at = datetime.fromtimestamp(changed / 1e9, UTC)
        return document(about, looked, at, response=self._response(path), elsewhere=list(due.candidates))

    def _response(self, path: Path) -> str | None:
        if not self.response:
            return None
        try:
            return read_bytes(path.parent / self.response, self.follower.root, MOST_RESPONSE).decode(errors="replace")
        except OSError:
            return None

    def _tell(self, answer: dict[str, Any]) -> None:
        click.echo(json.dumps(answer) if self.as_json else answer["line"])
        if answer["reasons"] and not self.as_json:
            for line in told(answer):
                click.echo(line, err=True)

    def _warn(self, message: str) -> None:
        if message != self._said:
            click.echo(f"Warning: {' '.join(message.split())}", err=True)
        self._said = message
