"""Verdicts on documents in files, by policies in files, and the text of these verdicts for a terminal."""

import codecs
import errno
import shutil
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import orjson

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import STANDARD_INPUT
from handoffaudit.cli.terminal import printable
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.config import (
    ANY_OTHER_TYPE,
    ROWS_AS_SHIPPED,
    Strictness,
    TypePolicy,
    ValidationConfig,
)
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_text import parse_json, sha256_hex
from handoffaudit.validation.layers import History, Subject
from handoffaudit.validation.layers.base import FileView
from handoffaudit.validation.pipeline import reject_unread
from handoffaudit.validation.record import Envelope, Reading, Record
from handoffaudit.validation.submission import read_submission
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.tokenizers import ENCODING, TokenCounter, default_counter
from handoffaudit.validation.verdict import LayerStatus, Outcome, Verdict

LARGEST = 16 * 1024 * 1024


def read_policy(paths: Sequence[str], strictness: str | None) -> ValidationConfig:
    """Read policies from files; `strictness` overrides the strictness of all types.

    Each file holds the answer of `GET /strictness`, `/rules`, `/schemas` or `/prompts`. Raises `Stop` for a file that
    can't be read or is not such a policy.
    """
    config = _replace_rows(ValidationConfig(version=0, other=TypePolicy(ANY_OTHER_TYPE)), 0, ROWS_AS_SHIPPED)
    for path in paths:
        config = _add_file(config, path)
    return _set_strictness(config, Strictness(strictness)) if strictness else config


def _add_file(config: ValidationConfig, path: str) -> ValidationConfig:
    from handoffaudit.policy.values import InvalidPolicy

    given = _load(path)
    try:
        return _detect_kind(path, given)(config, given)
    except (InvalidPolicy, TypeError, AttributeError, ValueError) as error:
        raise Stop(f"{path} is not a policy: {error}") from error


Added = Callable[[ValidationConfig, dict[str, Any]], ValidationConfig]


def _detect_kind(path: str, given: dict[str, Any]) -> Added:
    if "sets" in given:
        return _add_rules
    rows = given.get("rows")
    if not isinstance(rows, list):
        raise Stop(f'{path} is not a policy: it has neither "rows" (strictness, schemas, prompts) nor "sets" (rules).')
    if not rows:
        # A file without rows has schemas or prompts, because a strictness table always has a row. There is nothing to
        # add.
        return lambda config, given: config
    fields = {field for row in rows if isinstance(row, dict) for field in row}
    if fields & {"schema", "claim_fields"}:
        return _add_schemas
    return _add_prompts if fields & {"use", "text"} else _add_table


def _add_table(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.strictness import parse_rows

    return _replace_rows(config, int(given.get("version", 0)), parse_rows(given["rows"]))


def _replace_rows(config: ValidationConfig, version: int, rows: Sequence[TypePolicy]) -> ValidationConfig:
    types = {row.handoff_type: row for row in rows}
    other = types.pop(ANY_OTHER_TYPE)
    return replace(config, version=version, other=other, types=types)


def _add_rules(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.rules import check_sets, parse_rule_sets

    return replace(config, rules=check_sets(parse_rule_sets(given["sets"])))


def _add_schemas(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.schemas import check_rows
    from handoffaudit.policy.schemas import parse_rows as parse_schemas

    rows = check_rows(parse_schemas(given["rows"]))
    return replace(
        config,
        schemas={row.handoff_type: row.schema for row in rows if row.schema},
        claim_fields={row.handoff_type: row.claim_fields for row in rows if row.claim_fields is not None},
    )


def _add_prompts(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.prompts import current_prompts
    from handoffaudit.policy.prompts import parse_rows as parse_prompts

    return replace(config, prompts=current_prompts(parse_prompts(given["rows"]), str(int(given.get("version", 0)))))


def _set_strictness(config: ValidationConfig, strictness: Strictness) -> ValidationConfig:
    types = {name: replace(row, strictness=strictness) for name, row in config.types.items()}
    return replace(config, other=replace(config.other, strictness=strictness), types=types)


def _load(path: str) -> dict[str, Any]:
    from handoffaudit.policy.values import check_keys

    try:
        with Path(path).open("rb") as file:
            read = file.read(LARGEST + 1)
        given = orjson.loads(read.removeprefix(codecs.BOM_UTF8))
        check_keys(read.decode())
    except OSError as error:
        raise Stop(f"{path} can't be read ({error.strerror}).") from error
    except orjson.JSONDecodeError as error:
        too_large = f"larger than {LARGEST // 1024 // 1024} MiB" if len(read) > LARGEST else f"not JSON: {error}"
        raise Stop(f"{path} is {too_large}.") from error
    except ValueError as error:
        raise Stop(f"{path}: {error} Keep one of them.") from error
    if not isinstance(given, dict):
        raise Stop(f'{path} is not a policy: write {{"rows": […]}}, as GET /api/v1/strictness answers.')
    return given


class QuickCounter:
    """Token counter for output that shows no counts.

    No text has more tokens than bytes. While the bytes of each text fit into the smallest budget, `count` returns the
    number of bytes, because the text is within every budget. From the first longer text on, the tokenizer counts every
    text.
    """

    name = ENCODING
    estimated = False

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._real: TokenCounter | None = None

    def count(self, text: str) -> int:
        if self._real is None:
            size = len(text.encode("utf-8", "replace"))
            if size <= self._budget:
                return size
            self._real = default_counter()
        return self._real.count(text)


def quick_counter(budget: int) -> TokenCounter:
    """Return a counter for output that shows no counts.

    If no tokenizer is installed, counts are estimates, and verdicts say so.
    """
    return QuickCounter(budget) if find_spec("splintr") else default_counter()


_NO_SUCH = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """File view that only checks whether a file exists; relative paths start at `root`."""

    root: Path

    def exists(self, path: str) -> bool:
        try:
            return (self.root / path.removeprefix("file://")).exists()
        except OSError as error:
            if error.errno in _NO_SUCH:
                return False
            raise


@dataclass(frozen=True, slots=True)
class Given:
    """A submission, split into document and envelope.

    If the submission can't be split, `issues` say why and `document` is None. `sent` is the document as it was written.
    """

    document: object = None
    format: str | None = None
    envelope: Envelope = field(default_factory=Envelope)
    issues: tuple[Issue, ...] = ()
    sent: bytes | None = None

    def read(self) -> Reading:
        if self.issues:
            return Reading(None, self.issues, self.format or "")
        return formats.read(self.document, self.format, self.envelope)


def take_apart(sent: bytes, declared_format: str | None = None) -> Given:
    """Split a submission into document and envelope.

    Input with a declared format, or without the field `document`, is the document itself and has no envelope.
    """
    given = read_submission(sent, declared_format)
    if given.issues:
        return Given(issues=given.issues)
    value, issues = parse_json(given.document)
    if issues:
        return Given(format=given.format, issues=issues)
    bare = given.document is sent and declared_format is None
    if bare and isinstance(value, dict) and isinstance(raw := value.get("raw"), str):
        # A line of an import has this form if its document is not JSON.
        form = value.get("format")
        return take_apart(raw.encode("utf-8", "surrogatepass"), form if isinstance(form, str) else "")
    return Given(value, given.format or None, given.envelope, sent=given.document)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge for documents; `files` finds the files that a document refers to, and `root` is their folder."""

    config: ValidationConfig
    files: FileView | None = None
    declared_format: str | None = None
    counter: TokenCounter = field(default_factory=default_counter)
    root: Path = Path()

    def judge(self, sent: bytes) -> tuple[Reading, Verdict]:
        return self.judge_given(take_apart(sent, self.declared_format), sent)

    def judge_given(self, given: Given, sent: bytes) -> tuple[Reading, Verdict]:
        reading = given.read()
        if reading.record is None:
            return reading, self._judge_unread(sent, reading)
        return reading, self.verdict_on(reading.record, given.sent)

    def verdict_on(self, record: Record, sent: bytes | None = None) -> Verdict:
        return pipeline.run(
            self.subject_of(record, sent), validation_id=str(uuid.uuid4()), now=_now, monotonic=time.perf_counter
        )

    def subject_of(self, record: Record, sent: bytes | None = None) -> Subject:
        return Subject(
            record=record,
            policy=self.config.policy_for(record.handoff_type),
            history=History(),
            received_at=_now(),
            counter=self.counter,
            files=self.files,
            policy_version=self.config.version,
            demands=self.config.demands_for(record.handoff_type),
            known_agents=self.config.known_agents,
            sent=sent,
        )

    def _judge_unread(self, sent: bytes, reading: Reading) -> Verdict:
        return reject_unread(
            reading.issues,
            handoff_id="",
            validation_id=str(uuid.uuid4()),
            policy=self.config.other,
            policy_version=self.config.version,
            output_hash=sha256_hex(sent),
            validated_at=_now(),
        )


def judge_for(
    path: str, config: ValidationConfig, *, form: str | None = None, root: str | None = None, counts: bool = True
) -> Judge:
    """Return a judge for the documents of one file.

    Paths in the documents are relative to `root`, or to the folder of the file if `root` is not given.
    `counts` says whether the token counts of the verdict will be shown.
    """
    beside = Path() if path == STANDARD_INPUT else Path(path).parent
    rows = (config.other, *config.types.values())
    budget = min(min(row.token_budget, row.output_token_budget) for row in rows)
    counter = default_counter() if counts else quick_counter(budget)
    folder = Path(root) if root else beside
    return Judge(config, LocalFiles(folder), form, counter, folder)


def _now() -> datetime:
    return datetime.now(UTC)


_COLOURS = {Outcome.ACCEPTED: "green", Outcome.HELD: "yellow", Outcome.REJECTED: "red"}

_SEVERITY_COLOURS = {"critical": "red", "error": "red", "warning": "yellow", "info": "blue"}

_INDENT = " " * 11

MOST_ISSUES = 30

_MOST_PLACES = 5


def verdict_line(name: str, reading: Reading, verdict: Verdict) -> str:
    """Return one line about a verdict, with the outcome first, because readers look for the outcome."""
    outcome = click.style(verdict.outcome.value, fg=_COLOURS[verdict.outcome], bold=True)
    parts = [name, f"score {verdict.quality_score:.2f}"]
    if record := reading.record:
        parts.append(" ".join(part for part in (record.format, record.handoff_type) if part))
        parts.append(f"{record.source_agent_id or '?'} → {record.target_agent_id or '?'}")
    return f"{outcome}  {printable(' · '.join(parts))}"


def issue_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the lines about the findings, grouped by rule code and severity, the most severe groups first.

    After `MOST_ISSUES` groups, a last line says how many groups are left out.
    """
    order = list(_SEVERITY_COLOURS)
    kinds: dict[tuple[str, str], list[Issue]] = {}
    for issue in sorted(verdict.issues, key=lambda issue: order.index(issue.severity.value)):
        kinds.setdefault((issue.code, issue.severity), []).append(issue)
    for same in list(kinds.values())[:MOST_ISSUES]:
        yield from _lines_of_issues(same)
    if len(kinds) > MOST_ISSUES:
        yield f"  … and {len(kinds) - MOST_ISSUES} more rule codes: --json shows all."


def _lines_of_issues(same: Sequence[Issue]) -> Iterator[str]:
    """Yield the lines about findings with the same rule code and severity: the first in full, the others as places."""
    first, *others = same
    severity = click.style(f"{first.severity.value:<9}", fg=_SEVERITY_COLOURS[first.severity.value])
    place = f"  at {first.field_path}" if first.location else ""
    yield f"  {severity}{click.style(first.code, bold=True)}{printable(place)}"
    yield wrap(first.message)
    if others:
        places = list(dict.fromkeys(issue.field_path for issue in others if issue.location))
        at = f" at {', '.join(places[:_MOST_PLACES])}{', …' * (len(places) > _MOST_PLACES)}" if places else ""
        yield wrap(f"and {len(others)} more{at}: --json shows all")
    if first.hint:
        yield click.style(wrap(f"→ {first.hint}"), dim=True)


def not_run_line(verdict: Verdict) -> str:
    """Return a line that names the layers that did not run, so that readers do not think that these layers passed.

    The line is empty if all layers ran or do not apply.
    """
    reasons: dict[str, list[str]] = {}
    for layer in verdict.layers:
        if layer.status in (LayerStatus.SKIPPED, LayerStatus.ERROR):
            reasons.setdefault(layer.why, []).append(layer.name)
    layers_text = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    return click.style(wrap(f"not run: {layers_text}", indent="  "), dim=True) if layers_text else ""


def count_line(seen: Mapping[str, int]) -> str:
    """Return the last line of a run over several handoffs: `4 handoffs: 3 accepted, 1 rejected`."""
    counts_text = ", ".join(
        click.style(f"{seen[outcome.value]:,} {outcome.value}", fg=_COLOURS[outcome])
        for outcome in (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.HELD)
        if seen.get(outcome.value)
    )
    return f"{pluralize(sum(seen.values()), 'handoff')}: {counts_text}"


def wrap(text: str, indent: str = _INDENT) -> str:
    columns = min(shutil.get_terminal_size().columns, 110)
    return textwrap.fill(
        printable(text),
        width=max(columns, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
    )
