"""A verdict as a person reads it on a terminal."""

import shutil
import textwrap
from collections.abc import Iterator, Mapping

import click

from handoffaudit.validation.issues import Issue
from handoffaudit.validation.record import Reading
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.verdict import LayerStatus, Outcome, Verdict

_COLOURS = {Outcome.ACCEPTED: "green", Outcome.HELD: "yellow", Outcome.REJECTED: "red"}
_SEVERITY_COLOURS = {"critical": "red", "error": "red", "warning": "yellow", "info": "blue"}
_INDENT = " " * 11
MOST_ISSUES = 30


def head(name: str, reading: Reading, verdict: Verdict) -> str:
    """One line: the outcome first, since that is what is looked for."""
    outcome = click.style(verdict.outcome.value, fg=_COLOURS[verdict.outcome], bold=True)
    said = [name, f"score {verdict.quality_score:.2f}"]
    if record := reading.record:
        said.append(" ".join(part for part in (record.format, record.handoff_type) if part))
        said.append(f"{record.source_agent_id or '?'} → {record.target_agent_id or '?'}")
    return f"{outcome}  {_printable(' · '.join(said))}"


def issues(verdict: Verdict) -> Iterator[str]:
    """The gravest first, as they stand in each other's way."""
    order = list(_SEVERITY_COLOURS)
    found = sorted(verdict.issues, key=lambda issue: order.index(issue.severity.value))
    for issue in found[:MOST_ISSUES]:
        yield from _issue(issue)
    if len(found) > MOST_ISSUES:
        yield f"  … and {len(found) - MOST_ISSUES} more: --json shows all."


def _issue(issue: Issue) -> Iterator[str]:
    severity = click.style(f"{issue.severity.value:<9}", fg=_SEVERITY_COLOURS[issue.severity.value])
    place = f"  at {issue.field_path}" if issue.location else ""
    yield f"  {severity}{click.style(issue.code, bold=True)}{_printable(place)}"
    yield wrapped(issue.message)
    if issue.hint:
        yield click.style(wrapped(f"→ {issue.hint}"), dim=True)


def not_run(verdict: Verdict) -> str:
    """Layers that gave no judgement, since that is no pass; empty where all ran."""
    reasons: dict[str, list[str]] = {}
    for layer in verdict.layers:
        if layer.status in (LayerStatus.SKIPPED, LayerStatus.ERROR):
            reasons.setdefault(layer.why, []).append(layer.name)
    said = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    return click.style(wrapped(f"not run: {said}", indent="  "), dim=True) if said else ""


def counts(seen: Mapping[str, int]) -> str:
    """The last line of a run over several: `4 handoffs: 3 accepted, 1 rejected`."""
    said = ", ".join(
        click.style(f"{seen[outcome.value]:,} {outcome.value}", fg=_COLOURS[outcome])
        for outcome in (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.HELD)
        if seen.get(outcome.value)
    )
    return f"{pluralize(sum(seen.values()), 'handoff')}: {said}"


def wrapped(text: str, indent: str = _INDENT) -> str:
    columns = min(shutil.get_terminal_size().columns, 110)
    return textwrap.fill(
        _printable(text),
        width=max(columns, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
    )


def _printable(text: str) -> str:
    """What a sender wrote must not steer the terminal."""
    return "".join(char if char.isprintable() else "�" for char in text)
