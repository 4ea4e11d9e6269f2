"""Report of `handoffaudit eval`: figures as text and JSON; with an LLM, also the cost and the confirmation."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import report_left_out
from handoffaudit.cli.eval_answers import DEFAULT_NAME, AnswerFile, Crew, caller_from_environment
from handoffaudit.cli.eval_run import FileRun, Plan, Run, make_plan
from handoffaudit.evaluation.items import Kinds
from handoffaudit.evaluation.judge import Judge, Judged, LLMJudge, percentile
from handoffaudit.llm.calls import Caller
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.paths import at
from handoffaudit.validation.prompts.question import Role
from handoffaudit.validation.text import pluralize

# Each column has a heading, the name of a figure, and the format of the figure.
COLUMNS = (
    ("items", "items", "{:,}"),
    ("faulty", "faulty", "{:,}"),
    ("sound", "sound", "{:,}"),
    ("flagged", "flagged", "{:,}"),
    ("precision", "precision", "{:.3f}"),
    ("recall", "recall", "{:.3f}"),
    ("balanced", "balanced_accuracy", "{:.3f}"),
    ("span prec.", "span_precision", "{:.3f}"),
    ("span rec.", "span_recall", "{:.3f}"),
    ("span F1", "span_f1", "{:.3f}"),
    ("per 100 sound", "findings_per_100_sound", "{:.1f}"),
    ("ms", "ms_per_item", "{:.3f}"),
)

LONGEST = 600

WIDTH = 110


def table(files: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the headings, and for each file its row of figures and the lines with its shares, routes and codes.

    `-` stands for a missing figure.
    """
    names = [Path(path).name for path in files]
    first = max(map(len, ["file", *names]))
    yield "  ".join([f"{'file':<{first}}", *(heading for heading, _, _ in COLUMNS)])
    for name, figures in zip(names, files.values(), strict=True):
        cells = [f"{_format(figures[key], form):>{len(heading)}}" for heading, key, form in COLUMNS]
        yield "  ".join([f"{name:<{first}}", *cells])
        for which, shares in figures["flagged_shares"].items():
            yield f"  flagged of {which}: {_describe_shares(shares)}"
        if figures["same_way"]:
            yield f"  on a route used before: {figures['same_way']:,}, with the same data: {figures['same_data']:,}"
        for code, seen in figures["codes"].items():
            yield f"  {code}: " + ", ".join(f"{seen[label]:,} {label}" for label in sorted(seen))


def _format(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _describe_shares(shares: Mapping[str, Any]) -> str:
    """Return the shares of faulty and of sound items and their ratio, each with its interval of 95 %."""
    parts = [
        f"{_describe_with_interval(shares[label], '{:.3f}')} of {shares[label]['items']:,} {label}"
        for label in ("faulty", "sound")
    ]
    ratio = {"share": shares["ratio"], "interval": shares["ratio_interval"]}
    return f"{', '.join(parts)}; ratio {_describe_with_interval(ratio, '{:.2f}')}"


def _describe_with_interval(figure: Mapping[str, Any], form: str) -> str:
    between = figure["interval"]
    interval = f" [{form.format(between[0])}, {form.format(between[1])}]" if between else ""
    return f"{_format(figure['share'], form)}{interval}"


def wrong_lines(path: str, judged: Iterable[Judged]) -> Iterator[str]:
    """Yield lines about the wrongly judged items, for a person to read."""
    for one in judged:
        mistake = "missed" if one.item.label.faulty else "false alarm"
        yield f"\n{mistake}: {one.item.name} ({Path(path).name})"
        yield from textwrap.wrap(_text(one), WIDTH, initial_indent="  ", subsequent_indent="  ")
        for start, end in one.item.label.spans or ():
            yield f"  labelled: {_text(one)[start:end]!r}"
        for issue in one.found:
            yield f"  {issue.code}: {issue.message}"


def wrong_as_json(judged: Judged) -> dict[str, Any]:
    """Return a wrongly judged item as JSON values."""
    return {
        "item": judged.item.name,
        "faulty": judged.item.label.faulty,
        "text": _text(judged),
        "labelled_spans": judged.item.label.spans,
        "marked_spans": judged.spans,
        "issues": [issue.to_dict() for issue in judged.found],
    }


def _text(judged: Judged) -> str:
    data = judged.item.document.get("data")
    place = judged.item.label.place or ("text",)
    text = at(data, place)
    text = text if isinstance(text, str) else str(data)
    return text if judged.item.label.spans is not None or len(text) <= LONGEST else f"{text[:LONGEST]}…"


SHARES = (0.5, 0.9, 0.95, 0.99)


def run_as_json(run: Run, layers: list[str], show: int) -> dict[str, Any]:
    return {
        "model": run.caller.model_of(Role.FAST),
        "layers": layers,
        "results": str(run.results.path),
        "complete": not run.stopped,
        "stopped": run.stopped or None,
        "calls": run.calls,
        "tries": run.tries,
        "spent_usd": run.spent_usd,
        "files": [_file_as_json(file, show) for file in run.files],
    }


def _file_as_json(file: FileRun, show: int) -> dict[str, Any]:
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
    return shown | ({"wrong": [wrong_as_json(one) for one in file.by_model.wrong]} if show else {})


def run_lines(run: Run, layers: list[str]) -> Iterator[str]:
    """Yield a table for each file (the local layers, then the LLM), the wrongly judged items, and the cost."""
    model = run.caller.model_of(Role.FAST)
    for number, file in enumerate(run.files):
        if number:
            yield ""
        yield file.path
        yield from table({",".join(layers): file.local.figures(), model: file.by_model.figures()})
        yield _describe_answers(file)
    for file in run.files:
        yield from wrong_lines(file.path, file.by_model.wrong)
    yield ""
    yield f"{pluralize(run.calls, 'call')} in this run, {run.spent_usd:.4f} USD. Answers are in {run.results.path}."


def _describe_answers(file: FileRun) -> str:
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


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of the command; a `limit` of None means all items, and a `max_usd` of None means any cost."""

    model: str | None
    results: str | None
    limit: int | None
    concurrency: int
    max_usd: float | None
    is_agreed: bool
    show: int
    as_json: bool


def measure_model(
    paths: Sequence[str],
    layers: list[str],
    kinds: Kinds,
    judge_of_file: Callable[[], Judge],
    config: ValidationConfig,
    wishes: RunOptions,
) -> None:
    """Run the evaluation with the LLM; exit with 1 if the run stopped before all questions were asked.

    Raise `Stop` for standard input, for a file without usable data, and if the key, a setting or the file of the
    answers cannot be used. Also raise `Stop` if the user does not agree, or if there is no terminal to ask the user.
    """
    caller = caller_from_environment(wishes.model)
    model_judge = LLMJudge(now=lambda: datetime.now(UTC), config=config)
    with AnswerFile(Path(wishes.results or DEFAULT_NAME)) as results:
        planned = make_plan(list(dict.fromkeys(paths)), kinds, model_judge, caller, results, wishes.limit)
        _confirm(planned, caller, results, wishes)
        crew = Crew(caller, results, wishes.concurrency)
        run = Run(caller, crew, results, judge_of_file, model_judge, planned, wishes.max_usd, wishes.show)
        run.measure()
        _tell(run, layers, wishes)
    if run.stopped:
        sys.exit(1)


def _confirm(planned: Plan, caller: Caller, results: AnswerFile, wishes: RunOptions) -> None:
    """Show how many questions would be asked and what they cost, and ask the user to agree.

    Raise `Stop` if the user does not agree, or if there is no terminal to ask the user.
    """
    model = caller.model_of(Role.FAST)
    to_ask = len(planned.to_ask)
    click.echo(
        f"{pluralize(planned.items, 'item')} for {model}: {planned.known:,} have their answer in {results.path}, "
        f"{pluralize(to_ask, 'question')} to ask{_describe_cost(planned, results.mean_cost(model))}.",
        err=True,
    )
    if not to_ask or wishes.is_agreed:
        return
    if not sys.stdin.isatty():
        raise Stop("Nothing was asked: there is no terminal for the confirmation. Confirm with --yes.")
    if not click.confirm("Ask them?", err=True):
        raise Stop("Nothing was asked.", 1)


def _describe_cost(planned: Plan, mean: float | None) -> str:
    if not planned.to_ask:
        return ""
    about = f"about {mean * len(planned.to_ask):.4f} USD by the answers so far, " if mean is not None else ""
    return f", {about}at most about {planned.most_usd:.4f} USD"


def _tell(run: Run, layers: list[str], wishes: RunOptions) -> None:
    for file in run.files:
        report_left_out(file.path, file.local, run.plan.kinds.hint)
    if wishes.as_json:
        click.echo(json.dumps(run_as_json(run, layers, wishes.show)))
    else:
        for line in run_lines(run, layers):
            click.echo(line)
    if run.stopped:
        click.echo(
            f"Stopped: {run.stopped}. The figures cover the answered questions. The same command continues from here; "
            f"no question whose answer is in {run.results.path} is asked or paid for again.",
            err=True,
        )
