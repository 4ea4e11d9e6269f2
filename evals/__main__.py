"""The command `python -m evals`: `handoffaudit eval` with support for public corpora."""

from typing import Any

import click

from evals.kinds import KINDS, Given, kinds_with
from evals.origin import OriginTally
from handoffaudit.cli.eval import add_measuring_options, evaluate, files_argument, layers_option
from handoffaudit.cli.main import run
from handoffaudit.cli.terminal import example


@click.command(
    epilog=example(
        "python -m evals grounding-quintd.jsonl.gz",
        "python -m evals whowhen.jsonl.gz --layers chain",
        "python -m evals whowhen.jsonl.gz --origin",
        "python -m evals tau-retail.jsonl.gz --tool-results evidence",
        "python -m evals reviews.jsonl --layers evidence,grounding,rules --show 5 --json",
        "python -m evals grounding-quintd.jsonl.gz --with-model --limit 200 --max-usd 1",
    ),
)
@files_argument
@layers_option("grounding; all with --origin")
@click.option(
    "--origin",
    is_flag=True,
    help="Also measure how near the suspected handoffs of failed traces are to the mistake, compared with guesses.",
)
@click.option(
    "--tool-results",
    type=click.Choice([given.value for given in Given]),
    help="Of customer service runs, measure only the answers to the customer, with the results of tools as evidence of "
    "the trace, in the context, or without them.",
)
@add_measuring_options
def command(files: tuple[str, ...], layers: str, *, origin: bool, tool_results: str | None, **options: Any) -> None:
    """Measure layers on labelled data: how many faulty items they find, and how many sound items they flag.

    A FILE holds one labelled item per line (JSONL): texts with their source, group chats, task orders, or your own
    reviews. A file in gzip is recognised, and - is standard input. Each file is measured separately.

    With --with-model, an LLM also checks each item, using your own key. The command first shows the cost. To continue
    an interrupted run, run the command again.
    """
    names = (layers or ("all" if origin else "grounding")).split(",")
    kinds = kinds_with(Given(tool_results)) if tool_results else KINDS
    evaluate(files, names, kinds, lambda: {"origin": OriginTally()} if origin else {}, **options)


if __name__ == "__main__":
    run(command, "python -m evals")
