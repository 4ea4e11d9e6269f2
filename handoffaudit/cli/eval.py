"""`handoffaudit eval`: how well layers judge, on labelled data."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handoffaudit.cli.importing.files import STANDARD_INPUT, Source
from handoffaudit.cli.local.documents import Documents
from handoffaudit.cli.local.options import policy_option
from handoffaudit.cli.options import example, json_option
from handoffaudit.cli.stop import Stop

if TYPE_CHECKING:
    from handoffaudit.evaluation.judging import Judge
    from handoffaudit.evaluation.measuring import Measured

QUIET_SECONDS, LINE_SECONDS = 1.0, 2.0


@click.command(
    name="eval",
    epilog=example(
        "handoffaudit eval grounding-quintd.jsonl.gz",
        "handoffaudit eval whowhen.jsonl.gz --layers chain",
        "handoffaudit eval reviews.jsonl --layers evidence,grounding,rules --show 5 --json",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--layers",
    default="grounding",
    show_default=True,
    metavar="NAMES",
    help="The layers to measure together, with commas between; all means every one.",
)
@click.option(
    "--show", type=click.IntRange(0), default=0, metavar="N", help="Show the first N items that were judged wrongly."
)
@policy_option
@json_option
def command(files: tuple[str, ...], layers: str, show: int, policy: tuple[str, ...], *, as_json: bool) -> None:
    """Measure layers on labelled data: how much of what is faulty they find, and how often they are wrong.

    A FILE holds one labelled item a line (JSONL): texts with their source, group chats, task orders, or your own
    reviews; gzip is recognised, and - is standard input. Every file has figures of its own.
    """
    from handoffaudit.evaluation.measuring import measure

    names = layers.split(",")
    measured: dict[str, Measured] = {}
    for source in [Documents(path) for path in files]:
        progress = _Progress(source)
        measured[source.path] = measure(
            _lines(source), _judge(names, policy), beside=_beside(source.path), show=show, each=progress.update
        )
        progress.finish()
        _check(source.name, measured[source.path])
    if as_json:
        click.echo(json.dumps({"layers": names, "files": [_as_json(*one) for one in measured.items()]}))
        return
    from handoffaudit.cli.local import figures

    for line in figures.table({path: one.figures() for path, one in measured.items()}):
        click.echo(line)
    for path, one in measured.items():
        for line in figures.wrong(path, one.wrong):
            click.echo(line)


def _judge(names: list[str], policy: tuple[str, ...]) -> "Judge":
    from handoffaudit.evaluation.judging import AS_SHIPPED, Judge
    from handoffaudit.validation.counting import CharacterCounter, default_counter
    from handoffaudit.validation.layers import LAYERS

    chosen = [layer.name for layer in LAYERS] if names == ["all"] else names
    config = AS_SHIPPED
    if policy:
        from handoffaudit.cli.local.policy import read_policy

        config = read_policy(policy, "strict")
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


def _lines(source: Source) -> Iterator[tuple[int, bytes]]:
    for piece in source.pieces():
        if piece.text is not None:
            yield piece.number, piece.text


def _beside(path: str) -> Callable[[str], str | None]:
    """Reads a file that lies under the folder of `path`, and no other."""
    folder = (Path() if path == STANDARD_INPUT else Path(path).parent).resolve()

    def read(name: str) -> str | None:
        wanted = (folder / name).resolve()
        try:
            return wanted.read_text() if wanted.is_relative_to(folder) else None
        except (OSError, UnicodeDecodeError):
            return None

    return read


def _check(name: str, measured: "Measured") -> None:
    if not measured.tally.items:
        why = f": {measured.unread[0]}" if measured.unread else ""
        raise Stop(f"{name} holds no labelled data that is known here{why}.")
    if measured.unread_lines:
        from handoffaudit.validation.text import counted

        said = "; ".join(measured.unread)
        click.echo(f"{name}: {counted(measured.unread_lines, 'line')} left out: {said}.", err=True)


def _as_json(path: str, measured: "Measured") -> dict[str, Any]:
    from handoffaudit.cli.local import figures

    shown = {"file": path, **measured.figures()}
    return shown | {"wrong": [figures.wrong_one(judged) for judged in measured.wrong]} if measured.wrong else shown


class _Progress:
    """A line now and then on standard error, once it takes longer than a second."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._next = time.monotonic() + QUIET_SECONDS
        self._drawn = False
        self._terminal = sys.stderr.isatty()

    def update(self, items: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else LINE_SECONDS)
        self._drawn = True
        share = f" · {self._source.read_bytes / self._source.size:.0%}" if self._source.size else ""
        said = f"{self._source.name}: {items:,} items{share}"
        sys.stderr.write(f"\r\x1b[K{said}" if self._terminal else f"{said}\n")
        sys.stderr.flush()

    def finish(self) -> None:
        if self._drawn and self._terminal:
            sys.stderr.write("\r\x1b[K")
