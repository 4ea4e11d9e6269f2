"""A report of a handoff file taken in: a handoff like any other, a row of its own and a count, all or nothing."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import uuid_utils.compat
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import counting
from handoffaudit.diagnostics.files import policy, queries
from handoffaudit.diagnostics.models import FileReport, RetentionRun
from handoffaudit.handoffs import event_log
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.store import Receipt
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.retention import Data
from handoffaudit.validation.canonical import canonical
from handoffaudit.validation.file_health import explained, failed, health_line
from handoffaudit.validation.formats.file_report import FileFinding, judge_report
from handoffaudit.validation.formats.handoff_file import NAME, report_flaws
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.loglines import HealthLine, write_health
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.text import clean_or_empty
from handoffaudit.validation.times import moment

LONGEST_PATH: Final = 1000
# What tells one report from another, beside the time; the rest is how it was looked at.
_IDENTITY: Final = ("run_id", "agent", "phase", "expected_path", "file", "response_text")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a report. `report` is None where it was malformed or refused: the receipt says why."""

    receipt: Receipt
    report: FileReport | None = None

    @property
    def is_new(self) -> bool:
        return self.receipt.status == 202


def receive(tenant: Tenant, sender: Actor, sent: bytes, handoff_id: str = "") -> Received:
    """Stores a report once: one with a `timestamp` or a `handoff_id` that was stored before is found again."""
    document, unreadable = parse_json(sent, max_depth=settings.MAX_NESTING)
    flaws = tuple(report_flaws(document)) if isinstance(document, dict) else ()
    if unreadable or flaws or not isinstance(document, dict):
        return Received(store.accept(tenant, sender, _submission(sent, handoff_id, flaws)))
    made = "" if handoff_id else _made_id(document)
    return _store(tenant, sender, document, _submission(sent, handoff_id or made), known_by_content=bool(made))


def _submission(sent: bytes, handoff_id: str, flaws: tuple[Issue, ...] = ()) -> Submission:
    return Submission(sent, format=NAME, envelope=Envelope(handoff_id=handoff_id or None), issues=flaws)


def _made_id(document: Mapping[str, Any]) -> str:
    """Empty without a time: then each report is its own."""
    at = moment(document.get("timestamp"))
    if at is None:
        return ""
    told = [at.at.isoformat(), *(document.get(name) for name in _IDENTITY)]
    return f"file-report:{hashlib.sha256(canonical(told)).hexdigest()[:40]}"


def _store(
    tenant: Tenant, sender: Actor, document: Mapping[str, Any], submission: Submission, *, known_by_content: bool
) -> Received:
    with store.write_turn(), transaction.atomic():
        receipt = store.accept(tenant, sender, submission)
        if receipt.status == 202:
            report, line = _row(tenant, document, receipt)
            report.save(force_insert=True)
            counting.count_health(tenant.pk, Counter([_counted_under(line)]))
            event_log.log_file_report(line, tenant.pk, str(report.pk), failed=report.failed)
            return Received(receipt, report)
        may_be_known = receipt.status == 200 or (receipt.status == 409 and known_by_content)
        if not may_be_known:
            return Received(receipt)
        known = FileReport.objects.filter(tenant=tenant, handoff=receipt.id).first()
        if known is None:
            report, _ = _row(tenant, document, receipt)
            # The same report is answered the same, and neither kept nor counted again.
            known = report if _was_removed(report) else None
    return Received(receipt, known)


def _was_removed(report: FileReport) -> bool:
    """Whether retention took its row. A handoff that came by another way under this id never had one."""
    removed = RetentionRun.objects.filter(
        tenant=report.tenant, kind=Data.FILE_REPORTS.value, removed_before__gt=report.at
    ).first()
    came = Handoff.objects.filter(tenant=report.tenant, pk=report.handoff, format=NAME)
    return removed is not None and came.filter(received_at__lt=removed.removed_at).exists()


def _row(tenant: Tenant, document: Mapping[str, Any], receipt: Receipt) -> tuple[FileReport, HealthLine]:
    finding, at = judge_report(document), _time_of(document)
    line = health_line(document, finding, at)
    arrived = Handoff.objects.values_list("received_at", flat=True).get(tenant=tenant, pk=receipt.id)
    strict = policy.in_force_at(tenant, arrived)
    report = FileReport(
        # By the time that it is about, so that lists and periods need no other index.
        id=uuid_utils.compat.uuid7(nanoseconds=int(at.timestamp() * 1000) * 1_000_000),
        tenant=tenant,
        handoff=uuid.UUID(receipt.id),
        # To the second, as its line has it, by which a log that is sent in later is told to be ours.
        at=line.at,
        run_id=line.run_id,
        agent=line.agent,
        phase=line.phase,
        runtime=line.runtime,
        iteration=line.iteration,
        expected_path=clean_or_empty(document.get("expected_path"), LONGEST_PATH),
        wrong_path=clean_or_empty(finding.wrong_path, LONGEST_PATH),
        source=str(finding.source),
        reason=str(finding.reason or ""),
        fallback=str(finding.fallback or ""),
        failed=failed(finding, strict=strict.strict),
    )
    answer = _answer(report, receipt.handoff_id, finding, line, strict)
    report.content = orjson.dumps(answer).decode()
    return report, line


def _counted_under(line: HealthLine) -> counting.HealthPlace:
    why = (str(line.source), str(line.reason or ""), str(line.fallback or ""))
    return counting.HealthPlace(counting.hour_of(line.at), line.agent, line.phase, line.runtime, *why)


def _time_of(document: Mapping[str, Any]) -> datetime:
    """No later than now: a clock that is ahead must not put its reports before all others for good."""
    given, now = moment(document.get("timestamp")), timezone.now()
    return now if given is None else max(_EPOCH, min(given.at, now))


def _answer(
    report: FileReport, handoff_id: str, finding: FileFinding, line: HealthLine, strict: policy.InForce
) -> dict[str, Any]:
    return queries.listed(report) | {
        "handoff_id": handoff_id,
        "policy": {"strict_handoff_files": strict.strict, "version": strict.version},
        **explained(finding, strict=strict.strict),
        "line": write_health(line),
    }
