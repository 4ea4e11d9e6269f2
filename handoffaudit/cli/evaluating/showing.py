"""The figures of a run, as JSON and as a person reads them."""

from collections.abc import Iterator
from typing import Any

from handoffaudit.cli.evaluating.measuring import FileRun, Run
from handoffaudit.cli.local import figures
from handoffaudit.evaluation.asking import percentile
from handoffaudit.validation.prompts.question import Role
from handoffaudit.validation.text import pluralize

SHARES = (0.5, 0.9, 0.95, 0.99)


def as_json(run: Run, layers: list[str], show: int) -> dict[str, Any]:
    return {
        "model": run.caller.model_of(Role.FAST),
        "layers": layers,
        "results": str(run.results.path),
        "complete": not run.stopped,
        "stopped": run.stopped or None,
        "calls": run.calls,
        "tries": run.tries,
        "spent_usd": run.spent_usd,
        "files": [_file(file, show) for file in run.files],
    }


def _file(file: FileRun, show: int) -> dict[str, Any]:
    shown = {
        "file": file.path,
        "unanswered": file.unanswered,
        "answered_before": file.known,
        "failures": dict(file.failures),
        "answers_usd": file.answers_usd,
        "latency_ms": {f"p{share * 100:g}": percentile(file.latencies_ms, share) for share in SHARES},
        "local": file.local.figures(),
        "model": file.by_model.figures(),
    }
    return shown | ({"wrong": [figures.wrong_one(one) for one in file.by_model.wrong]} if show else {})


def lines(run: Run, layers: list[str]) -> Iterator[str]:
    """A table for each file, the local layers above the model, on the same items."""
    model = run.caller.model_of(Role.FAST)
    for number, file in enumerate(run.files):
        if number:
            yield ""
        yield file.path
        yield from figures.table({",".join(layers): file.local.figures(), model: file.by_model.figures()})
        yield _of_answers(file)
    for file in run.files:
        yield from figures.wrong(file.path, file.by_model.wrong)
    yield ""
    yield f"{pluralize(run.calls, 'call')} in this run, {run.spent_usd:.4f} USD. Answers are in {run.results.path}."


def _of_answers(file: FileRun) -> str:
    answered = file.by_model.tally.items
    parts = [f"{pluralize(answered, 'answer')}, {file.known:,} of them from before, {file.answers_usd:.4f} USD"]
    if file.latencies_ms:
        times = (f"p{share * 100:g} {percentile(file.latencies_ms, share) or 0:,.0f}" for share in SHARES)
        parts.append(f"latency in ms: {', '.join(times)}")
    if file.unanswered:
        failed = ", ".join(f"{number:,} {reason}" for reason, number in sorted(file.failures.items()))
        parts.append(
            f"{file.unanswered:,} without an answer, not counted" + (f" (failed calls: {failed})" if failed else "")
        )
    return "  " + "; ".join(parts)
