"""The compliance report as plain text that fits a terminal of 80 columns."""

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from handoffaudit.diagnostics.compliance.report import KINDS, Compliance
from handoffaudit.diagnostics.tallies import FileTally
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE, OutcomeCounts

WIDTH = 80
_GAP = "  "


def as_text(report: Compliance) -> str:
    """Ends with a line break. Names too long for it are cut in the middle."""
    window = report.window
    lines = [
        f"Compliance of {plain(report.tenant)}, {window.label}",
        f"{window.span} UTC, in whole hours",
        f"Written {report.made_at:%Y-%m-%d %H:%M:%S} UTC",
        "",
        "FILE COMPLIANCE: used/total (percent)",
        "",
        *_files(report),
        "",
        "ACCEPTANCE RATE: accepted/final attempts (percent)",
        *textwrap.wrap(ACCEPTANCE_RATE, WIDTH),
        "",
        *_validation(report),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _files(report: Compliance) -> Iterable[str]:
    files = report.files
    head = ("used", "missing", "not JSON", "fields", "other", "by text")
    yield from _table([("overall",)], [_of_files(files.overall)], ("",), head)
    if files.runtimes:
        yield ""
        runtimes = [(one.name or "(not given)",) for one in files.runtimes]
        yield from _table(runtimes, [_of_files(one.tally) for one in files.runtimes], ("runtime",), head)
    if files.pairs:
        yield ""
        names: list[tuple[str, ...]] = [(pair.phase, pair.agent) for pair in files.pairs]
        tallies = [pair.tally for pair in files.pairs]
        if files.others.total:
            names.append(("others",))
            tallies.append(files.others)
        yield from _table(names, [_of_files(tally) for tally in tallies], ("phase", "agent"), head)


def _of_files(tally: FileTally) -> tuple[str, ...]:
    shares = [share.percent_told if share.part else "-" for share in tally.file_reason_shares.values()]
    return (str(tally.share), *(shares if tally.total else ["-"] * len(shares)), str(tally.fallback_ok or "-"))


def _validation(report: Compliance) -> Iterable[str]:
    head = ("accepted", "approved", "blocked")
    yield from _table([("overall",)], [_of_handoffs(report.validation.overall)], ("",), head)
    for kind, told in KINDS.items():
        lines = report.validation.by[kind]
        if not lines.lines:
            continue
        names = [line.names for line in lines.lines]
        numbers = [_of_handoffs(line.judged) for line in lines.lines]
        if lines.others.total:
            names.append(("others",))
            numbers.append(_of_handoffs(lines.others))
        yield ""
        yield from _table(names, numbers, tuple(told.split(" and ")), head)
    rows = [one for one in report.validation.over_time if one.judged.total]
    if rows:
        yield ""
        times = [(f"{one.since:%Y-%m-%d %H:%M}",) for one in rows]
        yield from _table(times, [_of_handoffs(one.judged) for one in rows], ("from",), head)


def _of_handoffs(judged: OutcomeCounts) -> tuple[str, ...]:
    return (str(judged.share), str(judged.decided), str(judged.stopped))


def _table(
    names: Sequence[tuple[str, ...]], numbers: Sequence[tuple[str, ...]], heads: tuple[str, ...], head: tuple[str, ...]
) -> Iterable[str]:
    """Names to the left, numbers to the right, under their heads. A name without room has a line to itself."""
    told = [" / ".join(plain(name) or "(no name)" for name in row) for row in names]
    told.insert(0, " / ".join(heads))
    right = [max(map(width, column)) for column in zip(head, *numbers, strict=True)]
    room = WIDTH - sum(right) - len(_GAP) * len(right)
    left = max((width(name) for name in told if width(name) <= room), default=0)
    for name, cells in zip(told, [head, *numbers], strict=True):
        fits = width(name) <= left
        if not fits:
            yield shortened(name, WIDTH)
        beside = padded(name if fits else "", left)
        yield _GAP.join([beside, *(cell.rjust(wide) for cell, wide in zip(cells, right, strict=True))])


def plain(text: str) -> str:
    """Without what would move the terminal's cursor, hide or turn around what stands beside it."""
    return "".join("?" if unicodedata.category(one)[0] in "CZ" and one != " " else one for one in text)


def width(text: str) -> int:
    """How many columns it takes: some characters take two, some none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def shortened(text: str, room: int) -> str:
    """Cut in the middle: names of agents differ at both ends."""
    if width(text) <= room:
        return text
    half = room - 1
    end = ""
    while text and width(end) + width(text[-1]) <= half // 2:
        end, text = text[-1] + end, text[:-1]
    begin = ""
    for one in text:
        if width(begin) + width(one) > half - width(end):
            break
        begin += one
    return f"{begin}…{end}"


def padded(text: str, wide: int) -> str:
    return text + " " * (wide - width(text))
