"""The way of the command: who asks, what it would cost, whether that is wanted, and what came of it."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from handoffaudit.cli.evaluating import showing
from handoffaudit.cli.evaluating.asker import caller_here
from handoffaudit.cli.evaluating.crew import Crew
from handoffaudit.cli.evaluating.files import tell_left_out
from handoffaudit.cli.evaluating.measuring import Run
from handoffaudit.cli.evaluating.planning import Plan, plan
from handoffaudit.cli.evaluating.results import DEFAULT_NAME, Results
from handoffaudit.cli.stop import Stop
from handoffaudit.evaluation.asking import LLMJudge
from handoffaudit.evaluation.judging import Judge
from handoffaudit.llm.calls import Caller
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.prompts.question import Role
from handoffaudit.validation.text import pluralize


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of the command. `limit` None: all."""

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
    judge_of_file: Callable[[], Judge],
    config: ValidationConfig,
    wishes: Wishes,
) -> None:
    """Exits with 1 where it was stopped before all was asked."""
    caller = caller_here(wishes.model)
    model_judge = LLMJudge(now=lambda: datetime.now(UTC), config=config)
    with Results(Path(wishes.results or DEFAULT_NAME)) as results:
        planned = plan(list(dict.fromkeys(paths)), model_judge, caller, results, wishes.limit)
        _agree(planned, caller, results, wishes)
        crew = Crew(caller, results, wishes.concurrency)
        run = Run(caller, crew, results, judge_of_file, model_judge, planned, wishes.max_usd, wishes.show)
        run.measure()
        _tell(run, layers, wishes)
    if run.stopped:
        sys.exit(1)


def _agree(planned: Plan, caller: Caller, results: Results, wishes: Wishes) -> None:
    """Tells what would be asked and what it costs; raises `Stop` where that is not wanted."""
    model = caller.model_of(Role.FAST)
    to_ask = len(planned.to_ask)
    click.echo(
        f"{pluralize(planned.items, 'item')} for {model}: {planned.known:,} have their answer in {results.path}, "
        f"{pluralize(to_ask, 'question')} to ask{_cost(planned, results.mean_cost(model))}.",
        err=True,
    )
    if not to_ask or wishes.is_agreed:
        return
    if not sys.stdin.isatty():
        raise Stop("Nothing was asked: there is no terminal to ask you at whether that is wanted. Say so with --yes.")
    if not click.confirm("Ask them?", err=True):
        raise Stop("Nothing was asked.", 1)


def _cost(planned: Plan, mean: float | None) -> str:
    if not planned.to_ask:
        return ""
    about = f"about {mean * len(planned.to_ask):.4f} USD by the answers so far, " if mean is not None else ""
    return f", {about}at most about {planned.most_usd:.4f} USD"


def _tell(run: Run, layers: list[str], wishes: Wishes) -> None:
    for file in run.files:
        tell_left_out(file.path, file.local)
    if wishes.as_json:
        click.echo(json.dumps(showing.as_json(run, layers, wishes.show)))
    else:
        for line in showing.lines(run, layers):
            click.echo(line)
    if run.stopped:
        click.echo(
            f"Stopped: {run.stopped}. The figures are of what was answered. The same command goes on from here; "
            f"nothing in {run.results.path} is asked or paid again.",
            err=True,
        )
