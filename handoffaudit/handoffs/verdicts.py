"""The verdict on one handoff: its stored bytes through the pipeline, under the policy of its tenant."""

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import UUID

import orjson
from django.conf import settings
from django.db.models import BinaryField, F, Value
from django.db.models.functions import Coalesce, Length
from django.utils import timezone

from handoffaudit.handoffs.ingest.prepare import PreparedHandoff, read_record
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State, new_id
from handoffaudit.policy import load
from handoffaudit.policy.kinds import file_policy
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.config import Requirements, ValidationConfig
from handoffaudit.validation.formats import handoff_file, workflow_of
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_input import parse_json
from handoffaudit.validation.layers.base import History, Subject
from handoffaudit.validation.pipeline import reject_unread
from handoffaudit.validation.ports import LanguageModel
from handoffaudit.validation.record import Envelope, Reading, Record
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.verdict import Verdict


def envelope_of(handoff: Handoff, body: HandoffBody) -> Envelope:
    return Envelope(
        context=_load_json(body.context),
        evidence=_load_json(body.evidence),
        trace_id=handoff.trace_id or None,
        parent_handoff_id=handoff.parent_handoff_id or None,
        retry_of=handoff.retry_of or None,
        step=handoff.step,
        handoff_id=handoff.handoff_id,
        agent=handoff.source_agent_id or None,
        adapt=handoff.adapt,
    )


def reading_of(handoff: Handoff, body: HandoffBody) -> Reading:
    """The document read again from its stored bytes, as it was read when it came."""
    document, issues = parse_json(bytes(body.original))
    if issues:
        return Reading(record=None, issues=issues, format=handoff.format)
    return formats.read(document, handoff.format or None, envelope_of(handoff, body))


def record_of(handoff: Handoff, body: HandoffBody) -> Record | None:
    """None where the document can't be read."""
    return reading_of(handoff, body).record


def _load_json(raw: Any) -> Any:
    return orjson.loads(bytes(raw)) if raw is not None else None


# Begins the reason of a decision that asks the sender to send the handoff again.
RESEND: Final = "Please send it again: what arrived could not be read."


def is_asked_again(tenant: int, handoff: UUID) -> bool:
    """Return whether the last decline of it asked its sender to send it again."""
    declined = Event.objects.filter(handoff=handoff, tenant=tenant, to_state=State.DECLINED)
    return RESEND in (declined.order_by("-id").values_list("reason", flat=True).first() or "")


def verdict_on_unreadable(handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    return _verdict(load.load(handoff.tenant_id), handoff, issues)


def verdicts_of_unread(unread: Iterable[tuple[Handoff, tuple[Issue, ...]]]) -> list[tuple[Handoff, Verdict]]:
    """Return each handoff with its verdict. Load the policy of each tenant once."""
    configs: dict[int, ValidationConfig] = {}
    verdicts = []
    for handoff, issues in unread:
        tenant = handoff.tenant_id
        if tenant not in configs:
            configs[tenant] = load.load(tenant)
        verdicts.append((handoff, _verdict(configs[tenant], handoff, issues)))
    return verdicts


def _verdict(config: ValidationConfig, handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    return reject_unread(
        issues,
        handoff_id=handoff.handoff_id,
        validation_id=str(new_id()),
        policy=config.other,
        policy_version=config.version,
        policy_versions=config.versions,
        output_hash=handoff.content_hash,
        validated_at=timezone.now(),
    )


# Read, it can take fifty times as much.
CHUNK_BYTES = 4 * 1024 * 1024


def chunk_by_size(handoffs: Sequence[Handoff]) -> Iterator[list[Handoff]]:
    """In their order; one that is larger than a part is one by itself."""
    sizes = _sizes(handoffs) if len(handoffs) > 1 else {}
    part: list[Handoff] = []
    size = 0
    for handoff in handoffs:
        its = sizes.get(handoff.pk, 0)
        if part and size + its > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(handoff)
        size += its
    if part:
        yield part


def _sizes(handoffs: Sequence[Handoff]) -> dict[UUID, int]:
    """Of each the bytes of its document, context and evidence."""
    nothing = Value(b"", output_field=BinaryField())
    beside = Length(Coalesce("context", nothing)) + Length(Coalesce("evidence", nothing))
    rows = HandoffBody.objects.filter(pk__in=[handoff.pk for handoff in handoffs])
    return dict(rows.values_list("pk", F("handoff__size_bytes") + beside))


_NO_SUCH = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ELOOP}

_NOT_ALLOWED = {errno.EACCES, errno.EPERM}


@dataclass(frozen=True, slots=True)
class RootedFiles:
    """The files below some folders, of which only the existence is asked.

    A sender chooses the path, so nothing outside the folders is touched: a path that names another place, contains `..`
    or leads out through a symbolic link is answered with None, whether or not there is such a file.
    """

    roots: tuple[Path, ...]

    def exists(self, path: str) -> bool | None:
        """Return whether the file exists, None where its place may not be looked at. Raises OSError of a failing disk.

        A path that does not begin at the root of the file system is looked up in each of the folders.
        """
        named = PurePosixPath(path.removeprefix("file://"))
        if ".." in named.parts:
            return None
        found = [_exists(root, root / named) for root in self.roots if _is_below(root, named)]
        return next((answer for answer in (True, False) if answer in found), None)


def _is_below(root: Path, named: PurePosixPath) -> bool:
    return not named.is_absolute() or named.is_relative_to(root)


def _exists(root: Path, path: Path) -> bool | None:
    try:
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(root)):
            return None
        real.stat()
    except OSError as error:
        if error.errno in _NO_SUCH:
            return False
        if error.errno in _NOT_ALLOWED:
            return None
        raise
    return True


def reference_files() -> RootedFiles | None:
    """Return the view of the configured folders, or None if no folder is configured."""
    roots: Sequence[Path] = settings.REFERENCE_ROOTS
    return RootedFiles(tuple(roots)) if roots else None


class AskLater:
    """In place of a model: the layers that ask one are pending."""


ASK_LATER: Final = AskLater()

ModelChoice = LanguageModel | AskLater | None


@dataclass(frozen=True, slots=True)
class PriorContext:
    """What is known of a handoff's past: its trace, and the attempts before it."""

    history: History
    remediation: RemediationLog | None = None


def verdict_on_stored(
    handoff: Handoff, body: HandoffBody, before: PriorContext, config: ValidationConfig, *, model: ModelChoice = None
) -> Verdict:
    """What the pipeline says of one stored handoff. Without a `model`, the layers that ask one do not run."""
    reading = reading_of(handoff, body)
    if reading.record is None:
        return verdict_on_unreadable(handoff, reading.issues)
    handoff.user_approved = reading.record.user_approved
    return verdict_on_record(reading.record, handoff, before, config, model=model, sent=bytes(body.original))


def verdict_on_prepared(arrival: PreparedHandoff, before: PriorContext, config: ValidationConfig) -> Verdict:
    """What it says of one that is not stored."""
    handoff = arrival.handoff.as_model()
    reading = read_record(arrival.submission)
    if reading.record is None:
        return verdict_on_unreadable(handoff, reading.issues)
    return verdict_on_record(reading.record, handoff, before, config, sent=arrival.submission.document)


def verdict_on_record(
    record: Record,
    handoff: Handoff,
    before: PriorContext,
    config: ValidationConfig,
    *,
    model: ModelChoice = None,
    sent: bytes | None = None,
) -> Verdict:
    """Return the verdict on a record, be it stored or not. `sent` is the document as it arrived, where it did."""
    subject = Subject(
        record=record,
        policy=config.policy_for(handoff.handoff_type),
        history=before.history,
        received_at=handoff.received_at,
        counter=default_counter(),
        files=reference_files(),
        policy_version=config.version,
        policy_versions=config.versions,
        demands=_demands(record, handoff, config),
        remediation=before.remediation,
        known_agents=config.known_agents,
        model=None if isinstance(model, AskLater) else model,
        sent=sent,
    )
    verdict = pipeline.run(
        subject,
        validation_id=str(new_id()),
        now=timezone.now,
        monotonic=time.perf_counter,
        layers=None if model is None else pipeline.layers_with_model(),
    )
    return replace(verdict, handoff_id=handoff.handoff_id)


def _demands(record: Record, handoff: Handoff, config: ValidationConfig) -> Requirements:
    """Return what is demanded beside the strictness row. Whether only the handoff file counts is answered for the time
    when the handoff arrived, as its report was: judged again later, it gets the same verdict."""
    demands = config.demands_for(handoff.handoff_type, workflow_of(record))
    if record.format != handoff_file.NAME or record.original_document is None:
        return demands
    (policy,) = file_policy.at_time(handoff.tenant_id, handoff.received_at).rows
    return replace(demands, strict_files=policy.strict_handoff_files)
