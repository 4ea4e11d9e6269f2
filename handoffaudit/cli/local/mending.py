"""What came of a repair, as a person reads it on a terminal."""

from collections.abc import Iterator

import click

from handoffaudit.cli.local.showing import issues, wrapped
from handoffaudit.validation.diff import Change, ChangeKind
from handoffaudit.validation.repair import Attempt, Repair, RepairStatus
from handoffaudit.validation.text import show
from handoffaudit.validation.verdict import Verdict


def lines(name: str, result: Repair, before: Verdict) -> Iterator[str]:
    """What was changed and the verdict on it; where it could not be mended, what still stands in the way."""
    if result.repaired:
        yield from _repaired(name, result.repaired, before)
        return
    colour = "green" if result.status is RepairStatus.NOT_NEEDED else "red"
    status = click.style(result.status.value.replace("_", " "), fg=colour, bold=True)
    yield f"{status}  {name} · {result.why}"
    for attempt in result.attempts:
        if attempt.note:
            yield wrapped(f"{attempt.name}: {attempt.note}", indent="  ")
    yield from issues(result.attempts[-1].verdict if result.attempts else before)


def _repaired(name: str, attempt: Attempt, before: Verdict) -> Iterator[str]:
    after = attempt.verdict
    scores = f"score {before.quality_score:.2f} → {after.quality_score:.2f}"
    status = click.style("repaired", fg="green", bold=True)
    yield f"{status}  {name} · {after.outcome.value} now · {scores} · by {attempt.name}"
    for change in attempt.changes:
        yield wrapped(_said(change), indent="  ")
    yield from issues(after)


def _said(change: Change) -> str:
    why = f" ({change.why})" if change.why else ""
    place = change.field_path or "the document"
    match change.kind:
        case ChangeKind.ADDED:
            return f"+ {place} = {show(change.after)}{why}"
        case ChangeKind.REMOVED:
            return f"- {place}, {show(change.before)}{why}"
        case _:
            return f"~ {place}: {show(change.before)} → {show(change.after)}{why}"
