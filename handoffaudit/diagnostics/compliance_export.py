"""The compliance report as JSON values, as one table for spreadsheets, and as plain text of 80 columns."""

import csv
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from types import SimpleNamespace
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from handoffaudit.diagnostics.compliance_report import KINDS, ComplianceReport, OutcomeLines
from handoffaudit.diagnostics.file_stats import OTHER, REASONS, FileTally
from handoffaudit.handoffs.periods import format_utc
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE, OutcomeCounts, Share

# A time in whole seconds, in UTC.
Second = Annotated[str, BeforeValidator(format_utc)]

Text = Annotated[str, BeforeValidator(str)]


def alias_figure(*place: str) -> AliasChoices:
    """Return where a figure is read from: the object's tally, outcomes or value, or else the object itself."""
    holders = (("tally",), ("judged",), ("value",), ())
    return AliasChoices(*(AliasPath(*holder, *place) for holder in holders))


class Figures(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class WindowOut(Figures):
    period: Annotated[str | None, BeforeValidator(lambda period: period or None)] = Field(
        validation_alias=AliasPath("window", "period"),
        description="The requested period; null if `since` or `until` was given.",
    )
    since: Second = Field(validation_alias=AliasPath("window", "since"), description="Start of the period.")
    until: Second = Field(validation_alias=AliasPath("window", "until"), description="End of the period (exclusive).")
    compared_since: Second = Field(
        validation_alias=AliasPath("window", "before_since"),
        description="Start of the previous period of the same length.",
    )
    compared_until: Second = Field(
        validation_alias=AliasPath("window", "before_until"), description="End of the previous period."
    )


class ReasonShareOut(Figures):
    number: int = Field(
        validation_alias="part", description="Number of handoff files that went unused for this reason."
    )
    percent: float | None = Field(description="Percent of all expected files; null if no file was expected.")


class FileTallyOut(Figures):
    used: int = Field(validation_alias=alias_figure("used"), description="How often the file was used.")
    total: int = Field(validation_alias=alias_figure("total"), description="The number of expected files.")
    percent: float | None = Field(
        validation_alias=alias_figure("share", "percent"),
        description="File compliance in percent. Null for 0/0; 100 only if every file was used.",
    )
    told: Text = Field(
        validation_alias=alias_figure("share"), description="The share in words: `199/200 (99.5%)`, `0/0 (n/a)`."
    )
    reasons: dict[str, ReasonShareOut] = Field(
        validation_alias=alias_figure("reason_shares"), description="Reasons why the file was not used, with counts."
    )
    text_fallback_ok: int = Field(
        validation_alias=alias_figure("fallback_ok"),
        description="How often the text block in the response replaced the file.",
    )
    text_fallback_fail: int = Field(
        validation_alias=alias_figure("fallback_failed"),
        description="How often the response had no usable text block either.",
    )


class RuntimeOut(FileTallyOut):
    runtime: Annotated[str | None, BeforeValidator(lambda name: name or None)] = Field(
        validation_alias="name", description="The runtime of the agents; null if not reported."
    )


class PairOut(FileTallyOut):
    phase: str = Field(description="The phase.")
    agent: str = Field(description="The agent.")


class FilesOut(Figures):
    overall: FileTallyOut = Field(description="The totals.")
    by_runtime: list[RuntimeOut] = Field(validation_alias="runtimes", description="Totals by agent runtime.")
    other_runtimes: FileTallyOut = Field(description="The sum of the runtimes that are not listed.")
    by_phase_and_agent: list[PairOut] = Field(
        validation_alias="pairs", description="Phase and agent pairs, sorted by phase and agent."
    )
    others: FileTallyOut = Field(description="The sum of the pairs that are not listed.")


class DecidedOut(Figures):
    accepted: int = Field(validation_alias=alias_figure("accepted"), description="Handoffs accepted without a person.")
    total: int = Field(
        validation_alias=alias_figure("total"),
        description="Final attempts with a verdict: accepted, approved or blocked.",
    )
    percent: float | None = Field(
        validation_alias=alias_figure("share", "percent"),
        description=f"The acceptance rate. {ACCEPTANCE_RATE} Null if `total` is 0.",
    )
    told: Text = Field(validation_alias=alias_figure("share"), description="The rate in words.")
    approved: int = Field(validation_alias=alias_figure("decided"), description="Handoffs approved by a person.")
    stopped: int = Field(validation_alias=alias_figure("stopped"), description="Blocked: rejected, held or declined.")


class JudgedLineOut(DecidedOut):
    type: str | None = Field(None, description="The handoff type, in lines by type.")
    source: str | None = Field(None, description="The source agent, in lines by source.")
    target: str | None = Field(None, description="The target agent, in lines by target.")
    code: str | None = Field(None, description="The rule code, in lines by code.")


class JudgedLinesOut(Figures):
    items: list[JudgedLineOut] = Field(description="Lines with the most handoffs first.")
    others: DecidedOut = Field(description="The sum of the lines that are not listed.")


class JudgedStretchOut(DecidedOut):
    since: Second = Field(description="Start of the time bucket.")
    until: Second = Field(description="End of the time bucket (exclusive).")


def _lines(kind: str) -> BeforeValidator:
    """Return the validator that picks the lines of a kind, with the names of each line as fields, such as `source`."""
    names = kind.split("_")

    def pick(by: dict[str, OutcomeLines]) -> dict[str, Any]:
        items = [
            SimpleNamespace(judged=line.judged, **dict(zip(names, line.names, strict=True))) for line in by[kind].lines
        ]
        return {"items": items, "others": by[kind].others}

    return BeforeValidator(pick)


class ValidationOut(Figures):
    overall: DecidedOut = Field(description="The totals.")
    compared: DecidedOut = Field(validation_alias="before", description="The totals of the previous period.")
    by_type: Annotated[JudgedLinesOut, _lines("type")] = Field(
        validation_alias="by", description="Totals by handoff type."
    )
    by_source: Annotated[JudgedLinesOut, _lines("source")] = Field(
        validation_alias="by", description="Totals by source agent."
    )
    by_target: Annotated[JudgedLinesOut, _lines("target")] = Field(
        validation_alias="by", description="Totals by target agent."
    )
    by_source_target: Annotated[JudgedLinesOut, _lines("source_target")] = Field(
        validation_alias="by", description="Totals by route."
    )
    by_code: Annotated[JudgedLinesOut, _lines("code")] = Field(
        validation_alias="by", description="Totals by rule code."
    )
    over_time: list[JudgedStretchOut] = Field(description="Equal time buckets, oldest first.")


class ComplianceOut(WindowOut):
    tenant: str = Field(description="The tenant's name in addresses.")
    made_at: Second = Field(description="When the report was created.")
    handoff_files: FilesOut = Field(validation_alias="files", description="Handoff file usage.")
    validation: ValidationOut = Field(description="Outcomes of handoffs.")


def as_json(report: ComplianceReport) -> dict[str, Any]:
    return ComplianceOut.model_validate(report).model_dump(exclude_unset=True)


COLUMNS = (
    *("report", "by", "name", "second_name", "since", "until", "good", "total", "percent", "told"),
    *(*REASONS, OTHER, "text_fallback_ok", "text_fallback_fail", "approved", "stopped"),
)

# Prefixes that spreadsheets interpret as formulas (CSV injection). Some spreadsheets ignore blanks before the prefix.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_Cell = str | int | float


def as_csv(report: ComplianceReport) -> str:
    """Return the report as CSV, with one row for each line of the report.

    In lines about a phase and its agent, `name` is the phase and `second_name` the agent. In lines about a route,
    `name` is the source agent and `second_name` the target agent.
    """
    written_to = StringIO()
    table = csv.writer(written_to, lineterminator="\r\n")
    table.writerow(COLUMNS)
    table.writerows([escape_formula(cell) for cell in row] for row in _csv_rows(report))
    return written_to.getvalue()


def escape_formula(cell: _Cell) -> _Cell:
    """Put an apostrophe before text that a spreadsheet would interpret as a formula; return other cells unchanged."""
    if isinstance(cell, str) and cell.lstrip(" \u00a0").startswith(_FORMULA):
        return f"'{cell}"
    return cell


def _csv_rows(report: ComplianceReport) -> Iterator[list[_Cell]]:
    bounds = (format_utc(report.window.since), format_utc(report.window.until))
    files, validation = report.files, report.validation
    yield _csv_file_row("overall", ("", ""), bounds, files.overall)
    for one in files.runtimes:
        yield _csv_file_row("runtime", (one.name, ""), bounds, one.tally)
    if files.other_runtimes.total:
        yield _csv_file_row("runtime_others", ("", ""), bounds, files.other_runtimes)
    for pair in files.pairs:
        yield _csv_file_row("phase_and_agent", (pair.phase, pair.agent), bounds, pair.tally)
    if files.others.total:
        yield _csv_file_row("others", ("", ""), bounds, files.others)
    yield _csv_handoff_row("overall", ("", ""), bounds, validation.overall)
    for kind in KINDS:
        lines = validation.by[kind]
        for line in lines.lines:
            yield _csv_handoff_row(kind, (*line.names, "")[:2], bounds, line.judged)
        if lines.others.total:
            yield _csv_handoff_row(f"{kind}_others", ("", ""), bounds, lines.others)
    for bucket in validation.over_time:
        yield _csv_handoff_row("time", ("", ""), (format_utc(bucket.since), format_utc(bucket.until)), bucket.value)


def _csv_file_row(by: str, names: tuple[str, ...], bounds: tuple[str, str], tally: FileTally) -> list[_Cell]:
    numbers = [*tally.file_reasons.values(), tally.fallback_ok, tally.fallback_failed]
    return ["handoff_files", by, *names, *bounds, *_share(tally.share), *numbers, "", ""]


def _csv_handoff_row(by: str, names: tuple[str, ...], bounds: tuple[str, str], judged: OutcomeCounts) -> list[_Cell]:
    nothing = [""] * (len(REASONS) + 3)
    return ["validation", by, *names, *bounds, *_share(judged.share), *nothing, judged.decided, judged.stopped]


def _share(share: Share) -> list[_Cell]:
    return [share.part, share.total, "" if share.percent is None else share.percent, str(share)]


WIDTH = 80

_GAP = "  "


def as_text(report: ComplianceReport) -> str:
    """Return the report as plain text, with a final line break. Names that are too long are cut in the middle."""
    window = report.window
    lines = [
        f"Compliance of {strip_controls(report.tenant)}, {window.label}",
        f"{window.span} UTC, in whole hours",
        f"Written {report.made_at:%Y-%m-%d %H:%M:%S} UTC",
        "",
        "FILE COMPLIANCE: used/total (percent)",
        "",
        *_text_files(report),
        "",
        "ACCEPTANCE RATE: accepted/final attempts (percent)",
        *textwrap.wrap(ACCEPTANCE_RATE, WIDTH),
        "",
        *_text_validation(report),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _text_files(report: ComplianceReport) -> Iterable[str]:
    files = report.files
    head = ("used", "missing", "not JSON", "fields", "other", "by text")
    yield from _table([("overall",)], [_text_file_cells(files.overall)], ("",), head)
    if files.runtimes:
        yield ""
        runtimes = [((one.name or "(not given)",), one.tally) for one in files.runtimes]
        yield from _text_file_table(runtimes, files.other_runtimes, ("runtime",), head)
    if files.pairs:
        yield ""
        pairs = [((pair.phase, pair.agent), pair.tally) for pair in files.pairs]
        yield from _text_file_table(pairs, files.others, ("phase", "agent"), head)


def _text_file_table(
    lines: Iterable[tuple[tuple[str, ...], FileTally]], others: FileTally, heads: tuple[str, ...], head: tuple[str, ...]
) -> Iterable[str]:
    rows = [*lines, (("others",), others)] if others.total else list(lines)
    return _table([names for names, _ in rows], [_text_file_cells(tally) for _, tally in rows], heads, head)


def _text_file_cells(tally: FileTally) -> tuple[str, ...]:
    shares = [share.percent_told if share.part else "-" for share in tally.file_reason_shares.values()]
    return (str(tally.share), *(shares if tally.total else ["-"] * len(shares)), str(tally.fallback_ok or "-"))


def _text_validation(report: ComplianceReport) -> Iterable[str]:
    head = ("accepted", "approved", "blocked")
    yield from _table([("overall",)], [_text_handoff_cells(report.validation.overall)], ("",), head)
    for kind, title in KINDS.items():
        lines = report.validation.by[kind]
        if not lines.lines:
            continue
        names = [line.names for line in lines.lines]
        numbers = [_text_handoff_cells(line.judged) for line in lines.lines]
        if lines.others.total:
            names.append(("others",))
            numbers.append(_text_handoff_cells(lines.others))
        yield ""
        yield from _table(names, numbers, tuple(title.split(" and ")), head)
    rows = [one for one in report.validation.over_time if one.value.total]
    if rows:
        yield ""
        times = [(f"{one.since:%Y-%m-%d %H:%M}",) for one in rows]
        yield from _table(times, [_text_handoff_cells(one.value) for one in rows], ("from",), head)


def _text_handoff_cells(judged: OutcomeCounts) -> tuple[str, ...]:
    return (str(judged.share), str(judged.decided), str(judged.stopped))


def _table(
    names: Sequence[tuple[str, ...]], numbers: Sequence[tuple[str, ...]], heads: tuple[str, ...], head: tuple[str, ...]
) -> Iterable[str]:
    """Yield table lines with names on the left and numbers on the right. A name that is too long gets its own line."""
    labels = [" / ".join(strip_controls(name) or "(no name)" for name in row) for row in names]
    labels.insert(0, " / ".join(heads))
    right = [max(map(count_columns, column)) for column in zip(head, *numbers, strict=True)]
    room = WIDTH - sum(right) - len(_GAP) * len(right)
    left = max((count_columns(name) for name in labels if count_columns(name) <= room), default=0)
    for name, cells in zip(labels, [head, *numbers], strict=True):
        fits = count_columns(name) <= left
        if not fits:
            yield shorten(name, WIDTH)
        label = pad(name if fits else "", left)
        yield _GAP.join([label, *(cell.rjust(wide) for cell, wide in zip(cells, right, strict=True))])


def strip_controls(text: str) -> str:
    """Replace characters that would move the terminal's cursor, or hide or reverse the text beside them."""
    return "".join("?" if unicodedata.category(one)[0] in "CZ" and one != " " else one for one in text)


def count_columns(text: str) -> int:
    """Return the number of terminal columns of the text. Some characters take two columns, some none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def shorten(text: str, room: int) -> str:
    """Return the text in at most `room` columns. Cut in the middle, because agent names differ at both ends."""
    if count_columns(text) <= room:
        return text
    half = room - 1
    end = ""
    while text and count_columns(end) + count_columns(text[-1]) <= half // 2:
        end, text = text[-1] + end, text[:-1]
    begin = ""
    for one in text:
        if count_columns(begin) + count_columns(one) > half - count_columns(end):
            break
        begin += one
    return f"{begin}…{end}"


def pad(text: str, wide: int) -> str:
    return text + " " * (wide - count_columns(text))
