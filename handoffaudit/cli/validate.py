"""`handoffaudit validate`: judges files without a server."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import LONGEST
from handoffaudit.cli.terminal import (
    example,
    format_option,
    json_option,
    policy_option,
    root_option,
    skills_option,
    strictness_option,
)

if TYPE_CHECKING:
    from handoffaudit.validation.record import Reading
    from handoffaudit.validation.verdict import Verdict


@click.command(
    name="validate",
    epilog=example(
        "handoffaudit validate handoff.json",
        "make-handoffs | handoffaudit validate - --json",
        "handoffaudit validate run.jsonl.gz --type-policy lenient",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@format_option
@strictness_option
@policy_option
@root_option
@skills_option
@json_option
def command(
    files: tuple[str, ...],
    form: str | None,
    type_policy: str | None,
    policy: tuple[str, ...],
    root: str | None,
    skills: str | None,
    *,
    as_json: bool,
) -> None:
    """Judge handoffs in files locally, without a server.

    A FILE holds one document or submission, or one per line (JSONL), or a JSON array of them; gzip is recognised, and -
    is standard input. In a file with several documents, documents without findings are only counted, except with
    --json.

    All files are judged, even if one of them is unreadable. Exits with 2 if a file was unreadable, otherwise with 1 if
    a handoff is rejected, otherwise with 0. A held handoff waits for a person and is not an error.
    """
    from handoffaudit.cli.local_verdicts import read_policy

    config = read_policy(policy, type_policy)
    if skills:
        config = replace(config, known_agents=_load_known_agents(skills))
    unread: list[Stop] = []
    results = _judge_files(files, unread, config=config, form=form, root=root, counts=as_json)
    seen = _print_json(results, unread) if as_json else _print_text(results)
    for stop in unread:
        click.echo(stop.message, err=True)
    if unread or seen["rejected"]:
        sys.exit(2 if unread else 1)


def _load_known_agents(folder: str) -> frozenset[str]:
    from handoffaudit.validation.agents import SKILL_FILE, discover, skill_files

    registry = discover(skill_files(Path(folder)))
    for warning in registry.warnings:
        click.echo(warning, err=True)
    if not registry.names:
        raise Stop(f"{folder} holds no {SKILL_FILE} that can be read.")
    return registry.names


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a document; `alone` means that the document is the only document of its file."""

    file: str
    number: int
    alone: bool
    reading: "Reading"
    verdict: "Verdict"

    @property
    def name(self) -> str:
        return self.file if self.alone else f"{self.file}:{self.number}"


def _judge_files(files: tuple[str, ...], unread: list[Stop], **how: object) -> Iterator[Result]:
    """Yield the results of all files; the error of an unreadable file is added to `unread`."""
    for path in files:
        try:
            yield from _judge_file(path, **how)
        except Stop as stop:
            unread.append(stop)


def _judge_file(path: str, **how: object) -> Iterator[Result]:
    from handoffaudit.cli.documents import Documents
    from handoffaudit.cli.local_verdicts import judge_for

    source = Documents(path)
    judge = judge_for(path, **how)  # type: ignore[arg-type]
    pieces = source.pieces()
    first, second = next(pieces, None), next(pieces, None)
    if first is None:
        raise Stop(f"{source.name} is empty.")
    for piece in chain([first], [second] if second else [], pieces):
        if piece.text is None:
            raise Stop(f"{source.name}:{piece.number} is a document of more than {LONGEST // 1024**2} MiB.")
        yield Result(source.name, piece.number, second is None, *judge.judge(piece.text))


def _print_json(results: Iterable[Result], unread: Sequence[Stop]) -> Counter[str]:
    """Print each verdict as soon as it is ready, because the verdicts of a file may not fit into memory."""
    from handoffaudit.validation.verdict import verdict_to_dict

    seen: Counter[str] = Counter()
    click.echo('{"items": [', nl=False)
    for result in results:
        shown = {"file": result.file, "number": result.number, **verdict_to_dict(result.verdict)}
        click.echo((",\n" if seen.total() else "\n") + json.dumps(shown), nl=False)
        seen[result.verdict.outcome.value] += 1
    counts = {outcome: seen[outcome] for outcome in ("accepted", "rejected", "held")}
    valid = json.dumps(not (unread or seen["rejected"]))
    errors_json = json.dumps([stop.message for stop in unread])
    click.echo(f'\n], "valid": {valid}, "counts": {json.dumps(counts)}, "unread": {errors_json}}}')
    return seen


def _print_text(results: Iterable[Result]) -> Counter[str]:
    from handoffaudit.cli import local_verdicts

    seen: Counter[str] = Counter()
    several = False
    for result in results:
        seen[result.verdict.outcome.value] += 1
        several = several or not result.alone or seen.total() > 1
        if not result.alone and not result.verdict.issues:
            continue
        click.echo(local_verdicts.verdict_line(result.name, result.reading, result.verdict))
        for line in local_verdicts.issue_lines(result.verdict):
            click.echo(line)
        if result.alone and (line := local_verdicts.not_run_line(result.verdict)):
            click.echo(line)
    if several:
        click.echo(local_verdicts.count_line(seen))
    return seen
