"""A document of a file through the pipeline: the same call as for a handoff of the product."""

import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from handoffaudit.cli.importing.files import STANDARD_INPUT
from handoffaudit.cli.local.counting import quick_counter
from handoffaudit.cli.local.files import LocalFiles
from handoffaudit.cli.local.reading import Given, take_apart
from handoffaudit.validation import pipeline
from handoffaudit.validation.canonical import sha256_hex
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.layers import History, Subject
from handoffaudit.validation.pipeline import reject_unread
from handoffaudit.validation.ports import FileView
from handoffaudit.validation.record import Reading, Record
from handoffaudit.validation.tokenizers import TokenCounter, default_counter
from handoffaudit.validation.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Judge:
    """`files` are the caller's, for the files that a document refers to; `root` is their folder."""

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
            return reading, self._unread(sent, reading)
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

    def _unread(self, sent: bytes, reading: Reading) -> Verdict:
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
    """For the documents of one file: what they refer to lies under `root`, or beside the file. `counts`: the verdict's
    counts of tokens will be shown."""
    beside = Path() if path == STANDARD_INPUT else Path(path).parent
    budget = min(row.token_budget for row in (config.other, *config.types.values()))
    counter = default_counter() if counts else quick_counter(budget)
    folder = Path(root) if root else beside
    return Judge(config, LocalFiles(folder), form, counter, folder)


def _now() -> datetime:
    return datetime.now(UTC)
