"""The compliance report as one table for spreadsheets."""

import csv
from collections.abc import Iterator
from io import StringIO

from handoffaudit.diagnostics.compliance.report import KINDS, Compliance
from handoffaudit.diagnostics.tallies import OTHER, REASONS, FileTally
from handoffaudit.diagnostics.windows import written
from handoffaudit.handoffs.rates import OutcomeCounts, Share

COLUMNS = (
    *("report", "by", "name", "second_name", "since", "until", "good", "total", "percent", "told"),
    *(*REASONS, OTHER, "text_fallback_ok", "text_fallback_fail", "approved", "stopped"),
)
# What makes a spreadsheet take a text for a formula; some skip what is blank before it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_Cell = str | int | float


def as_csv(report: Compliance) -> str:
    """One row a line of the report. `name` of pairs is the phase or the source, `second_name` the agent or target."""
    written_to = StringIO()
    table = csv.writer(written_to, lineterminator="\r\n")
    table.writerow(COLUMNS)
    table.writerows([safe(cell) for cell in row] for row in _rows(report))
    return written_to.getvalue()


def safe(cell: _Cell) -> _Cell:
    """A text that a spreadsheet would calculate gets an apostrophe before it; numbers stay numbers."""
    if isinstance(cell, str) and cell.lstrip(" \u00a0").startswith(_FORMULA):
        return f"'{cell}"
    return cell


def _rows(report: Compliance) -> Iterator[list[_Cell]]:
    bounds = (written(report.window.since), written(report.window.until))
    files, validation = report.files, report.validation
    yield _of_files("overall", ("", ""), bounds, files.overall)
    for one in files.runtimes:
        yield _of_files("runtime", (one.name, ""), bounds, one.tally)
    for pair in files.pairs:
        yield _of_files("phase_and_agent", (pair.phase, pair.agent), bounds, pair.tally)
    if files.others.total:
        yield _of_files("others", ("", ""), bounds, files.others)
    yield _of_handoffs("overall", ("", ""), bounds, validation.overall)
    for kind in KINDS:
        lines = validation.by[kind]
        for line in lines.lines:
            yield _of_handoffs(kind, (*line.names, "")[:2], bounds, line.judged)
        if lines.others.total:
            yield _of_handoffs(f"{kind}_others", ("", ""), bounds, lines.others)
    for stretch in validation.over_time:
        yield _of_handoffs("time", ("", ""), (written(stretch.since), written(stretch.until)), stretch.judged)


def _of_files(by: str, names: tuple[str, ...], bounds: tuple[str, str], tally: FileTally) -> list[_Cell]:
    numbers = [*tally.file_reasons.values(), tally.fallback_ok, tally.fallback_failed]
    return ["handoff_files", by, *names, *bounds, *_share(tally.share), *numbers, "", ""]


def _of_handoffs(by: str, names: tuple[str, ...], bounds: tuple[str, str], judged: OutcomeCounts) -> list[_Cell]:
    nothing = [""] * (len(REASONS) + 3)
    return ["validation", by, *names, *bounds, *_share(judged.share), *nothing, judged.decided, judged.stopped]


def _share(share: Share) -> list[_Cell]:
    return [share.part, share.total, "" if share.percent is None else share.percent, str(share)]
