"""`handoffaudit eval`: measures on labelled data how well layers judge."""

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from handoffaudit.cli.errors import Stop
from handoffaudit.cli.imports.files import Documents, describe_progress, labelled_lines, reader_beside, report_left_out
from handoffaudit.cli.options import example, json_option, policy_option
from handoffaudit.cli.progress import ProgressLine

if TYPE_CHECKING:
    from handoffaudit.evaluation.judge import Judge
    from handoffaudit.evaluation.stats import Measured
    from handoffaudit.validation.config import ValidationConfig


@click.command(
    name="eval",
    epilog=example(
        "handoffaudit eval grounding-quintd.jsonl.gz",
        "handoffaudit eval whowhen.jsonl.gz --layers chain",
        "handoffaudit eval whowhen.jsonl.gz --origin",
        "handoffaudit eval reviews.jsonl --layers evidence,grounding,rules --show 5 --json",
        "handoffaudit eval grounding-quintd.jsonl.gz --with-model --limit 200 --max-usd 1",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--layers",
    default="",
    metavar="NAMES",
    help="The layers to measure together, separated by commas, or all. Default: grounding; all with --origin.",
)
@click.option(
    "--origin",
    is_flag=True,
    help="Also measure how near the suspected handoffs of failed traces are to the decisive mistake, against guesses.",
)
@click.option("--show", type=click.IntRange(0), default=0, metavar="N", help="Show the first N wrongly judged items.")
@policy_option
@click.option("--with-model", is_flag=True, help="Also let an LLM check each item. This costs money.")
@click.option(
    "--model",
    metavar="NAME",
    help="The LLM to use. Default: HANDOFFAUDIT_MODEL_FAST, otherwise the LLM of the product.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=None, metavar="N", help="Check N items of each file with the LLM."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    metavar="N",
    help="Number of parallel calls.",
)
@click.option(
    "--max-usd", type=click.FloatRange(0), metavar="USD", help="Make no call that can raise the cost above this limit."
)
@click.option(
    "--results",
    metavar="FILE",
    help="File for the answers of the LLM. Default: handoffaudit-eval-answers.jsonl in this folder.",
)
@click.option("--yes", "is_agreed", is_flag=True, help="Start without confirmation.")
@json_option
def command(
    files: tuple[str, ...],
    layers: str,
    show: int,
    policy: tuple[str, ...],
    *,
    with_model: bool,
    origin: bool,
    as_json: bool,
    **wishes: Any,
) -> None:
    """Measure layers on labelled data: the share of faulty items that they find, and how often they are wrong.

    A FILE holds one labelled item per line (JSONL): texts with their source, group chats, task orders, or your own
    reviews; gzip is recognised, and - is standard input. Each file is measured separately.

    With --with-model, an LLM also checks each item with your own key, beside the local layers. The command shows the
    cost first. Run it again to continue an interrupted run.
    """
    names = (layers or ("all" if origin else "grounding")).split(",")
    config = _config(policy)
    if with_model:
        from handoffaudit.cli.evaluation.report import RunOptions, measure_model

        asked = RunOptions(**wishes, show=show, as_json=as_json)
        measure_model(files, names, lambda: _judge(names, config), config, asked)
        return
    measured = _measured(files, names, config, show, origin=origin)
    if as_json:
        click.echo(json.dumps({"layers": names, "files": [_as_json(*one) for one in measured.items()]}))
        return
    from handoffaudit.cli.evaluation import report

    for line in report.table({path: one.figures() for path, one in measured.items()}):
        click.echo(line)
    for path, one in measured.items():
        if one.locating:
            for line in report.origin_lines(path, one.locating.figures()):
                click.echo(line)
        for line in report.wrong_lines(path, one.wrong):
            click.echo(line)


def _measured(
    files: tuple[str, ...], names: list[str], config: "ValidationConfig", show: int, *, origin: bool
) -> "dict[str, Measured]":
    from handoffaudit.evaluation.stats import measure

    measured: dict[str, Measured] = {}
    for source in [Documents(path) for path in files]:
        progress = ProgressLine()

        def tell(items: int, source: Documents = source, progress: ProgressLine = progress) -> None:
            progress.tell(lambda: describe_progress(source, items))

        judge = _judge(names, config)
        measured[source.path] = measure(
            labelled_lines(source), judge, beside=reader_beside(source.path), show=show, each=tell, origin=origin
        )
        progress.finish()
        report_left_out(source.name, measured[source.path])
    return measured


def _config(policy: tuple[str, ...]) -> "ValidationConfig":
    if policy:
        from handoffaudit.cli.local.policy import read_policy

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
    from handoffaudit.cli.evaluation import report

    shown = {"file": path, **measured.figures()}
    return shown | {"wrong": [report.wrong_as_json(judged) for judged in measured.wrong]} if measured.wrong else shown
