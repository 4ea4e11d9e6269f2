"""`handoffaudit validate`: files judged here, without a server."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handoffaudit.cli.importing.files import LONGEST
from handoffaudit.cli.local.options import (
    format_option,
    policy_option,
    root_option,
    skills_option,
    strictness_option,
)
from handoffaudit.cli.options import example, json_option
from handoffaudit.cli.stop import Stop

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
    """Judge handoffs in files, here, without a server.

    A FILE holds one document or submission, or one a line (JSONL), or a JSON array of them; gzip is recognised, and -
    is standard input. Of a file with several, those without findings are only counted.

    Exits with 0 where none is rejected (a held one waits for a person and is no error), with 1 where one is, and with 2
    where a file can't be read.
    """
    from handoffaudit.cli.local.policy import read_policy

    config = read_policy(policy, type_policy)
    if skills:
        config = replace(config, known_agents=_known_agents(skills))
    results = _results(files, config=config, form=form, root=root, counts=as_json)
    seen = _print_json(results) if as_json else _print_text(results)
    if seen["rejected"]:
        sys.exit(1)


def _known_agents(folder: str) -> frozenset[str]:
    from handoffaudit.validation.registry import SKILL_FILE, discover, skill_files

    registry = discover(skill_files(Path(folder)))
    for warning in registry.warnings:
        click.echo(warning, err=True)
    if not registry.names:
        raise Stop(f"{folder} holds no {SKILL_FILE} that can be read.")
    return registry.names


@dataclass(frozen=True, slots=True)
class Result:
    """`alone`: it is the only document of its file."""

    file: str
    number: int
    alone: bool
    reading: "Reading"
    verdict: "Verdict"

    @property
    def name(self) -> str:
        return self.file if self.alone else f"{self.file}:{self.number}"


def _results(files: tuple[str, ...], **how: object) -> Iterator[Result]:
    from handoffaudit.cli.local.documents import Documents
    from handoffaudit.cli.local.judging import judge_for

    for source in [Documents(path) for path in files]:
        judge = judge_for(source.path, **how)  # type: ignore[arg-type]
        pieces = source.pieces()
        first, second = next(pieces, None), next(pieces, None)
        if first is None:
            raise Stop(f"{source.name} is empty.")
        for piece in chain([first], [second] if second else [], pieces):
            if piece.text is None:
                raise Stop(f"{source.name}:{piece.number} is a document of more than {LONGEST // 1024**2} MiB.")
            yield Result(source.name, piece.number, second is None, *judge.judge(piece.text))


def _print_json(results: Iterable[Result]) -> Counter[str]:
    """Written as it comes, since a file may hold more verdicts than fit into memory."""
    from handoffaudit.validation.verdict import verdict_to_dict

    seen: Counter[str] = Counter()
    click.echo('{"items": [', nl=False)
    for result in results:
        shown = {"file": result.file, "number": result.number, **verdict_to_dict(result.verdict)}
        click.echo((",\n" if seen.total() else "\n") + json.dumps(shown), nl=False)
        seen[result.verdict.outcome.value] += 1
    counts = {outcome: seen[outcome] for outcome in ("accepted", "rejected", "held")}
    click.echo(f'\n], "valid": {json.dumps(not seen["rejected"])}, "counts": {json.dumps(counts)}}}')
    return seen


def _print_text(results: Iterable[Result]) -> Counter[str]:
    from handoffaudit.cli.local import showing

    seen: Counter[str] = Counter()
    several = False
    for result in results:
        seen[result.verdict.outcome.value] += 1
        several = several or not result.alone or seen.total() > 1
        if not result.alone and not result.verdict.issues:
            continue
        click.echo(showing.head(result.name, result.reading, result.verdict))
        for line in showing.issues(result.verdict):
            click.echo(line)
        if result.alone and (line := showing.not_run(result.verdict)):
            click.echo(line)
    if several:
        click.echo(showing.counts(seen))
    return seen
