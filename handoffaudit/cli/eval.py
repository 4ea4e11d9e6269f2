"""`handoffaudit eval`: measures on labelled data how well layers judge."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import Documents, describe_progress, labelled_lines, reader_beside, report_left_out
from handoffaudit.cli.terminal import ProgressLine, example, json_option, policy_option

if TYPE_CHECKING:
    from handoffaudit.evaluation.items import Kinds
    from handoffaudit.evaluation.judge import Judge
    from handoffaudit.evaluation.stats import FurtherTally, Measured
    from handoffaudit.validation.config import ValidationConfig

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")


def layers_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option `--layers`, with a text about its default."""
    help_text = f"The layers to measure together, separated by commas, or all. Default: {default}."
    return click.option("--layers", default="", metavar="NAMES", help=help_text)


_MEASURING_OPTIONS = (
    click.option(
        "--show",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="Show the first N wrongly judged items of each file.",
    ),
    policy_option,
    click.option("--with-model", is_flag=True, help="Also let an LLM check each item. This costs money."),
    click.option(
        "--model",
        metavar="NAME",
        help="The LLM to use. Default: HANDOFFAUDIT_MODEL_FAST, otherwise the LLM of the product.",
    ),
    click.option(
        "--limit", type=click.IntRange(1), default=None, metavar="N", help="Check N items of each file with the LLM."
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 256),
        default=8,
        show_default=True,
        metavar="N",
        help="Number of parallel calls.",
    ),
    click.option(
        "--max-usd",
        type=click.FloatRange(0),
        metavar="USD",
        help="Make no call that can raise the cost above this limit.",
    ),
    click.option(
        "--results",
        metavar="FILE",
        help="File for the answers of the LLM. Default: handoffaudit-eval-answers.jsonl in this folder.",
    ),
    click.option("--yes", "is_agreed", is_flag=True, help="Start without confirmation."),
    json_option,
)


def add_measuring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_MEASURING_OPTIONS):
        command = option(command)
    return command


@click.command(
    name="eval",
    epilog=example(
        "handoffaudit export --reviews | handoffaudit eval -",
        "handoffaudit eval reviews.jsonl --layers evidence,grounding,rules --show 5 --json",
        "handoffaudit eval texts.jsonl",
        "handoffaudit eval texts.jsonl --with-model --limit 200 --max-usd 1",
    ),
)
@files_argument
@layers_option("grounding")
@add_measuring_options
def command(files: tuple[str, ...], layers: str, **options: Any) -> None:
    """Measure layers on labelled data: the share of faulty items that they find, and how often they are wrong.

    Each line of a FILE (JSONL) is one labelled item: your own review, or a text with its source. A FILE can be gzipped.
    The FILE - is standard input, which --with-model cannot use. Each file is measured separately. `python -m evals` in
    a checkout of the source code also reads public corpora.

    With --with-model, an LLM also checks each item, beside the local layers. The LLM is asked with your own key. The
    command shows the cost first. Run the command again to continue an interrupted run.
    """
    from handoffaudit.evaluation.items import KINDS

    evaluate(files, (layers or "grounding").split(","), KINDS, **options)


def evaluate(
    files: tuple[str, ...],
    names: list[str],
    kinds: "Kinds",
    further: "Callable[[], Mapping[str, FurtherTally]]" = dict,
    *,
    show: int,
    policy: tuple[str, ...],
    with_model: bool,
    as_json: bool,
    **wishes: Any,
) -> None:
    """Measure the named layers on files of these kinds, and print the result.

    `further` returns the additional tallies of a file by their names. `wishes` are the other options of the command.
    """
    config = _load_config(policy)
    if with_model:
        from handoffaudit.cli.eval_report import RunOptions, measure_model

        run_options = RunOptions(**wishes, show=show, as_json=as_json)
        measure_model(files, names, kinds, lambda: _judge(names, config), config, run_options)
        return
    # A file that can't be read ends the command before any other file is measured.
    sources = [Documents(path) for path in files]
    measured = {one.path: _measure_file(one, _judge(names, config), kinds, further(), show) for one in sources}
    if as_json:
        click.echo(json.dumps({"layers": names, "files": [_as_json(*one) for one in measured.items()]}))
        return
    from handoffaudit.cli import eval_report

    for line in eval_report.table({path: one.figures() for path, one in measured.items()}):
        click.echo(line)
    for path, one in measured.items():
        for tally in one.further.values():
            for line in tally.lines(path):
                click.echo(line)
        for line in eval_report.wrong_lines(path, one.wrong):
            click.echo(line)


def _measure_file(
    source: Documents, judge: "Judge", kinds: "Kinds", further: "Mapping[str, FurtherTally]", show: int
) -> "Measured":
    from handoffaudit.evaluation.stats import measure

    progress = ProgressLine()
    measured = measure(
        labelled_lines(source),
        judge,
        kinds,
        beside=reader_beside(source.path),
        show=show,
        each=lambda items: progress.update(lambda: describe_progress(source, items)),
        further=further,
    )
    progress.finish()
    report_left_out(source.name, measured, kinds.hint)
    return measured


def _load_config(policy: tuple[str, ...]) -> "ValidationConfig":
    if policy:
        from handoffaudit.cli.local_verdicts import read_policy

        return read_policy(policy, "strict")
    from handoffaudit.evaluation.judge import AS_SHIPPED

    return AS_SHIPPED


def _judge(names: list[str], config: "ValidationConfig") -> "Judge":
    from handoffaudit.evaluation.judge import Judge
    from handoffaudit.validation.layers import LAYERS
    from handoffaudit.validation.tokenizers import CharacterCounter, default_counter

    chosen = [layer.name for layer in LAYERS] if names == ["all"] else names
    try:
        return Judge(
            chosen,
            counter=default_counter() if "tokens" in chosen else CharacterCounter(),
            now=lambda: datetime.now(UTC),
            monotonic=time.perf_counter,
            config=config,
        )
    except ValueError as error:
        raise Stop(str(error)) from error


def _as_json(path: str, measured: "Measured") -> dict[str, Any]:
    from handoffaudit.cli import eval_report

    shown = {"file": path, **measured.figures()}
    return (
        shown | {"wrong": [eval_report.wrong_as_json(judged) for judged in measured.wrong]} if measured.wrong else shown
    )
