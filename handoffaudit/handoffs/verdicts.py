"""Verdicts on handoffs, which the validation pipeline makes with the policy of the tenant."""

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote_to_bytes
from uuid import UUID

import msgspec
import orjson
from django.conf import settings
from django.db import router
from django.utils import timezone

from handoffaudit.handoffs import db
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff, read_record
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State, new_id_text
from handoffaudit.handoffs.trace_facts import TraceFacts, load_facts
from handoffaudit.policy import kinds
from handoffaudit.policy.kinds import file_policy
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.claims import Source
from handoffaudit.validation.config import Requirements, ValidationConfig
from handoffaudit.validation.formats import handoff_file, workflow_of
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_text import MAX_DEPTH, parse_json
from handoffaudit.validation.layers.base import History, LanguageModel, Layer, Subject
from handoffaudit.validation.pipeline import reject_unread
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
        sent_at=handoff.sent_at,
        reason=body.reason or None,
        adapt=handoff.adapt,
    )


def reading_of(handoff: Handoff, body: HandoffBody) -> Reading:
    """Read the stored document again and return the reading.

    The document is read as on arrival, except for the limit of its depth. Here the limit is `MAX_DEPTH`. On arrival,
    the setting `MAX_NESTING` is the limit if this setting is lower.
    """
    document, issues = parse_json(bytes(body.original), max_depth=MAX_DEPTH)
    if issues:
        return Reading(record=None, issues=issues, format=handoff.format)
    return formats.read(document, handoff.format or None, envelope_of(handoff, body), checked_depth=MAX_DEPTH)


def record_of(handoff: Handoff, body: HandoffBody) -> Record | None:
    """Return the record of the stored document, or None if the document cannot be read."""
    return reading_of(handoff, body).record


def _load_json(raw: Any) -> Any:
    return orjson.loads(bytes(raw)) if raw is not None else None


# A decline whose reason contains this text asks the sender to send the handoff again.
RESEND: Final = "Please send it again: what arrived could not be read."


def is_asked_again(tenant: int, handoff: UUID) -> bool:
    """Return whether the last decline of the handoff asked its sender to send it again."""
    declined = Event.objects.filter(handoff=handoff, tenant=tenant, to_state=State.DECLINED).exclude(
        from_state=State.DECLINED
    )
    return RESEND in (declined.order_by("-id").values_list("reason", flat=True).first() or "")


def verdict_on_unreadable(handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    return _verdict(kinds.load_config(handoff.tenant_id), handoff, issues)


def verdicts_of_unread(unread: Iterable[tuple[Handoff, tuple[Issue, ...]]]) -> list[tuple[Handoff, Verdict]]:
    """Return each handoff with its verdict. The policy of each tenant is loaded only once."""
    configs: dict[int, ValidationConfig] = {}
    verdicts = []
    for handoff, issues in unread:
        tenant = handoff.tenant_id
        if tenant not in configs:
            configs[tenant] = kinds.load_config(tenant)
        verdicts.append((handoff, _verdict(configs[tenant], handoff, issues)))
    return verdicts


def _verdict(config: ValidationConfig, handoff: Handoff, issues: tuple[Issue, ...]) -> Verdict:
    return reject_unread(
        issues,
        handoff_id=handoff.handoff_id,
        validation_id=new_id_text(),
        policy=config.other,
        policy_version=config.version,
        policy_versions=config.versions,
        output_hash=handoff.content_hash,
        validated_at=timezone.now(),
    )


# Parsed documents can take fifty times as much memory as their bytes, so the limit keeps chunks small.
CHUNK_BYTES = 4 * 1024 * 1024


def chunk_by_size(handoffs: Sequence[Handoff]) -> Iterator[list[Handoff]]:
    """Yield the handoffs in order, in chunks of at most `CHUNK_BYTES`. A larger handoff gets its own chunk."""
    sizes = _measure(handoffs) if len(handoffs) > 1 else {}
    part: list[Handoff] = []
    size = 0
    for handoff in handoffs:
        its = sizes.get(handoff.id, 0)
        if part and size + its > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(handoff)
        size += its
    if part:
        yield part


_ATTACHED: Final = "handoff_id, COALESCE(LENGTH(context), 0) + COALESCE(LENGTH(evidence), 0)"


def _measure(handoffs: Sequence[Handoff]) -> dict[UUID, int]:
    """Return for each handoff the total size in bytes of its document, context and evidence."""
    sql, values = _select_bodies(_ATTACHED, [handoff.id for handoff in handoffs])
    rows = db.fetch_rows(sql, values, router.db_for_read(HandoffBody))
    attached = {db.to_uuid(pk): size for pk, size in rows}
    return {handoff.id: handoff.size_bytes + attached.get(handoff.id, 0) for handoff in handoffs}


def load_bodies(pks: Sequence[UUID]) -> dict[UUID, HandoffBody]:
    """Return the documents of these handoffs by primary key."""
    reader = db.reader_of(HandoffBody)
    return {body.handoff_id: body for body in reader.run(*_select_bodies(reader.columns, pks), binary=True)}


def _select_bodies(columns: str, pks: Sequence[UUID]) -> tuple[str, list[Any]]:
    among, values = db.among(pks)
    sql = f'SELECT {columns} FROM "{HandoffBody._meta.db_table}" WHERE handoff_id {among}'  # noqa: S608, SLF001 -- documented API
    if not db.is_postgresql():
        return sql, values
    # Once PostgreSQL keeps the plan of the statement, only the bounds tell it which partitions to read.
    return f"{sql} AND handoff_id BETWEEN %s AND %s", [*values, min(pks), max(pks)]


_NO_SUCH = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ELOOP}

_NOT_ALLOWED = {errno.EACCES, errno.EPERM}


# The pattern also matches the letter of a drive.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE | re.ASCII)


# A home folder, a Windows share, or a folder that a variable of the sender's machine names: $HOME, %USERPROFILE%.
_SENDERS_PLACE = re.compile(r"~|\\|\$|%\w+%")


@dataclass(frozen=True, slots=True)
class RootedFiles:
    """The files below some folders; only their existence is checked.

    The sender chooses the path, so no path outside the folders is accessed. Some paths always yield None, even if the
    file exists. Such a path leads to another folder, machine or drive, to a home folder or to a web address. Or it
    begins with a variable, contains `..`, or leaves the folders through a symbolic link.
    """

    roots: tuple[Path, ...]

    def exists(self, path: str) -> bool | None:
        """Return whether the file exists, or None if the path may not be accessed. Raise `OSError` if the disk fails.

        A relative path is looked up in each of the folders.
        """
        try:
            path.encode()
        except UnicodeEncodeError:
            # No file name contains half a surrogate pair.
            return False
        local = _local_path(path)
        if local is None or ".." in (named := PurePosixPath(local)).parts:
            return None
        found = [_exists(root, root / named) for root in self.roots if _is_below(root, named)]
        return next((answer for answer in (True, False) if answer in found), None)


def _local_path(path: str) -> str | None:
    """Return the local path that a path or a `file:` URI names, or None for a place elsewhere."""
    scheme, colon, rest = path.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        return None if _SENDERS_PLACE.match(path) else path
    if scheme.lower() != "file":
        return None
    if rest.startswith("//"):
        host, _, below = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            return None
        rest = f"/{below}"
    # No file name contains NUL, and the file system raises an error for such a name, so the name is not decoded.
    return rest if "%00" in rest else os.fsdecode(unquote_to_bytes(rest))


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
    """Return the files below the configured folders, or None if no folder is configured."""
    roots: Sequence[Path] = settings.REFERENCE_ROOTS
    return RootedFiles(tuple(roots)) if roots else None


class AskLater:
    """A stand-in for the LLM: the layers that need the LLM stay pending."""


ASK_LATER: Final = AskLater()

ModelChoice = LanguageModel | AskLater | None


@dataclass(frozen=True, slots=True)
class PriorContext:
    """The knowledge for a verdict: the history of the handoff, the record of its earlier attempts, and trace facts.

    `facts` are the facts of the trace, or None to load them for this handoff alone. `evidence` holds tool results.
    `strict_files` says whether a handoff file is required; None means that the policy at the time of arrival decides.
    """

    history: History
    remediation: RemediationLog | None = None
    facts: TraceFacts | None = None
    evidence: tuple[Source, ...] = ()
    strict_files: bool | None = None


def verdict_on_stored(
    handoff: Handoff,
    body: HandoffBody,
    before: PriorContext,
    config: ValidationConfig,
    *,
    model: ModelChoice = None,
    layers: Iterable[Layer] | None = None,
) -> Verdict:
    """Return the verdict on a stored handoff. Without a `model`, the layers that ask the LLM do not run.

    `layers` are run instead of the layers that follow from `model`. The function sets `handoff.user_approved` from the
    document.
    """
    reading = reading_of(handoff, body)
    if reading.record is None:
        return verdict_on_unreadable(handoff, reading.issues)
    handoff.user_approved = reading.record.user_approved
    sent = bytes(body.original)
    return verdict_on_record(reading.record, handoff, before, config, model=model, sent=sent, layers=layers)


def verdict_on_prepared(
    prepared: PreparedHandoff, before: PriorContext, config: ValidationConfig, *, model: ModelChoice = None
) -> Verdict:
    """Return the verdict on a handoff that is not stored."""
    handoff = prepared.as_model()
    reading = read_record(prepared.submission)
    if reading.record is None:
        return _verdict(config, handoff, reading.issues)
    sent = prepared.submission.document
    return verdict_on_record(reading.record, handoff, before, config, model=model, sent=sent)


def verdict_on_record(
    record: Record,
    handoff: Handoff,
    before: PriorContext,
    config: ValidationConfig,
    *,
    model: ModelChoice = None,
    sent: bytes | None = None,
    layers: Iterable[Layer] | None = None,
) -> Verdict:
    """Return the verdict on a record, which need not be stored. `sent` is the document as it arrived, if known."""
    facts = before.facts or load_facts([handoff])
    known = facts.find_known(handoff, record, config.roles)
    subject = Subject(
        record=record,
        policy=config.policy_for(handoff.handoff_type),
        history=before.history,
        received_at=handoff.received_at,
        counter=default_counter(),
        files=reference_files(),
        policy_version=config.version,
        policy_versions=config.versions,
        demands=_demands(record, handoff, config, strict_files=before.strict_files),
        remediation=before.remediation,
        known_agents=config.known_agents,
        model=None if isinstance(model, AskLater) else model,
        sent=sent,
        trace_evidence=(*before.evidence, *known.evidence),
        reported=known.reported,
        source_role=known.role,
    )
    if layers is None and model is not None:
        layers = pipeline.layers_with_model()
    verdict = pipeline.run(
        subject,
        validation_id=new_id_text(),
        now=timezone.now,
        monotonic=time.perf_counter,
        layers=layers,
    )
    facts.learn(handoff, record, known, verdict.claims)
    return msgspec.structs.replace(verdict, handoff_id=handoff.handoff_id)


def _demands(record: Record, handoff: Handoff, config: ValidationConfig, *, strict_files: bool | None) -> Requirements:
    """Return the requirements beyond the strictness row of the type.

    Unless `strict_files` is given, the policy at the time of arrival decides whether a handoff file is required. So the
    verdict agrees with the file report, even if the handoff is judged again after a change of the policy.
    """
    demands = config.demands_for(handoff.handoff_type, workflow_of(record))
    if record.format != handoff_file.NAME or record.original_document is None:
        return demands
    if strict_files is None:
        (policy,) = file_policy.at_time(handoff.tenant_id, handoff.received_at).rows
        strict_files = policy.strict_handoff_files
    return replace(demands, strict_files=strict_files)
