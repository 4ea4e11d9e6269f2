"""The compliance report as JSON values: numbers are numbers, a share of nothing is null."""

from typing import Any

from handoffaudit.diagnostics.compliance.report import KINDS, Compliance, Files, Lines, Validation
from handoffaudit.diagnostics.tallies import FileTally
from handoffaudit.diagnostics.windows import Window, written
from handoffaudit.handoffs.rates import OutcomeCounts, Share


def as_json(report: Compliance) -> dict[str, Any]:
    return {
        "tenant": report.tenant,
        **window_json(report.window),
        "made_at": written(report.made_at),
        "handoff_files": _files(report.files),
        "validation": _validation(report.validation),
    }


def window_json(window: Window) -> dict[str, Any]:
    """Whole hours; `until` and `compared_until` are not included."""
    return {
        "period": window.period or None,
        "since": written(window.since),
        "until": written(window.until),
        "compared_since": written(window.before_since),
        "compared_until": written(window.before_until),
    }


def share_json(share: Share, part: str) -> dict[str, Any]:
    return {part: share.part, "total": share.total, "percent": share.percent, "told": str(share)}


def tally_json(tally: FileTally) -> dict[str, Any]:
    shares = tally.reason_shares
    return {
        **share_json(tally.share, "used"),
        "reasons": {name: {"number": share.part, "percent": share.percent} for name, share in shares.items()},
        "text_fallback_ok": tally.fallback_ok,
        "text_fallback_fail": tally.fallback_failed,
    }


def judged_json(judged: OutcomeCounts) -> dict[str, Any]:
    return {**share_json(judged.share, "accepted"), "approved": judged.decided, "stopped": judged.stopped}


def _files(files: Files) -> dict[str, Any]:
    return {
        "overall": tally_json(files.overall),
        "by_runtime": [{"runtime": one.name or None, **tally_json(one.tally)} for one in files.runtimes],
        "by_phase_and_agent": [
            {"phase": pair.phase, "agent": pair.agent, **tally_json(pair.tally)} for pair in files.pairs
        ],
        "others": tally_json(files.others),
    }


def _validation(validation: Validation) -> dict[str, Any]:
    return {
        "overall": judged_json(validation.overall),
        "compared": judged_json(validation.before),
        **{f"by_{kind}": _lines(kind, validation.by[kind]) for kind in KINDS},
        "over_time": [
            {"since": written(one.since), "until": written(one.until), **judged_json(one.judged)}
            for one in validation.over_time
        ],
    }


def _lines(kind: str, lines: Lines) -> dict[str, Any]:
    names = tuple(kind.split("_"))
    return {
        "items": [{**dict(zip(names, line.names, strict=True)), **judged_json(line.judged)} for line in lines.lines],
        "others": judged_json(lines.others),
    }
