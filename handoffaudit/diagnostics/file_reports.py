"""Reports of handoff files: receiving, storing and listing them, and the policy that decides which files failed."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import orjson
import uuid_utils.compat
from django import forms
from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import TruncDate
from django.utils import timezone
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import DAILY_FILES, HOURLY_FILES, TALLY_CONDITIONS
from handoffaudit.diagnostics.models import FileReport, HealthCount, RetentionRun
from handoffaudit.filter_fields import UNTIL, ChoiceFilter, MomentFilter, SinceFilter, TextFilter
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs import event_log, recount
from handoffaudit.handoffs.compiled_queries import sum_rows
from handoffaudit.handoffs.counts import Aggregate
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.filters import is_before, is_since, parse_cursor
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import Receipt
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.recount import Difference
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.kinds import file_policy
from handoffaudit.policy.retention import Data
from handoffaudit.policy.strictness import HandoffFilesPolicy
from handoffaudit.policy.versions import Table
from handoffaudit.validation.formats.file_report import Fallback, FileFinding, Reason, Source, judge_report
from handoffaudit.validation.formats.handoff_file import NAME, describe_report, has_phase_failed, report_flaws
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_text import canonical, parse_json
from handoffaudit.validation.logs.lines import HealthLine, health_line, write_health
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.text import clean_or_empty
from handoffaudit.validation.times import hour_of, moment, utc_text

LOOKED_BACK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class FilePolicy:
    """The handoff file policy; with `strict`, a report counts as failed unless the handoff file itself was used."""

    strict: bool
    version: int


def current_policy(tenant: Tenant) -> FilePolicy:
    return _from_table(file_policy.current(tenant))


def policy_at(tenant: Tenant, at: datetime) -> FilePolicy:
    """Return the policy of that time. Reports that arrived then, and their handoffs, are judged by this policy."""
    return _from_table(file_policy.at_time(tenant.pk, at))


def _from_table(table: Table[HandoffFilesPolicy]) -> FilePolicy:
    return FilePolicy(table.rows[0].strict_handoff_files, table.version)


@dataclass(frozen=True, slots=True)
class Effect:
    """The number of handoff files of the last 7 days, and how many of them fail without and with the strict policy."""

    total: int
    failed: int
    failed_if_strict: int


def measure_effect(tenant: Tenant) -> Effect:
    since = hour_of(timezone.now() - LOOKED_BACK)
    counted = list(HOURLY_FILES.read(tenant, since).values_list("source", "reason", "fallback", "number"))
    return Effect(
        total=sum(n for *_, n in counted),
        failed=sum(n for _, *why, n in counted if any(why) and Fallback.OK not in why),
        failed_if_strict=sum(n for source, *why, n in counted if source != Source.HANDOFF_JSON or any(why)),
    )


REASONS: Final = {
    Reason.FILE_MISSING.value: "file missing",
    Reason.JSON_PARSE_ERROR.value: "not JSON",
    Reason.SCHEMA_INVALID.value: "fields wrong",
}

FALLBACKS: Final = {Fallback.OK.value: "read from the response", Fallback.FAILED.value: "no block in the response"}


def _has_reason(reason: str) -> Q:
    return Q(("fallback" if reason in FALLBACKS else "reason", reason))


@dataclass(frozen=True, slots=True)
class FileFilters(FilterSet):
    """Filters of a list of reports; empty text and None filter nothing.

    `period` is the text of a relative `since`, such as `7d`. `reason` may also name the outcome of a fallback.
    """

    agent: str = declare(TextFilter("Agent", "Only reports of this agent.", where="agent"))
    phase: str = declare(TextFilter("Phase", "The phase of the run.", where="phase"))
    runtime: str = declare(TextFilter("Runtime", "Only reports of this agent runtime.", where="runtime"))
    run: str = declare(TextFilter("Run", "Only reports of this run.", where="run_id"))
    reason: str = declare(
        ChoiceFilter(
            "Reason",
            f"One of {', '.join(REASONS | FALLBACKS)}.",
            where=_has_reason,
            example="file_missing",
            choices=REASONS | FALLBACKS,
        )
    )
    source: str = declare(
        ChoiceFilter(
            "Source",
            "handoff_json or text_fallback",
            where="source",
            choices={source.value: source.value for source in Source},
            widget=forms.HiddenInput(),
        )
    )
    fallback: str = declare(
        ChoiceFilter("Fallback", "text_fallback_ok or text_fallback_fail", where="fallback", choices=FALLBACKS)
    )
    failed: str = declare(
        ChoiceFilter(
            "Outcome",
            "yes or no",
            where=lambda failed: Q(failed=failed == "yes"),
            choices={"yes": "phase failed", "no": "went on"},
            empty_label="All",
        )
    )
    since: datetime | None = declare(SinceFilter(where=is_since))
    until: datetime | None = declare(MomentFilter("Until", UNTIL, where=is_before, widget=forms.HiddenInput()))
    period: str = ""


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A page of reports and the cursor of the next page, which is None on the last page."""

    items: list[FileReport]
    next: str | None


def list_reports(tenant: Tenant, filters: FileFilters, *, cursor: str = "", limit: int = 50) -> ReportPage:
    """Return a page of reports, newest first by the time in the report."""
    rows = FileReport.objects.filter(tenant=tenant).filter(*filters.conditions()).defer("content").order_by("-id")
    if cursor:
        rows = rows.filter(id__lt=parse_cursor(cursor))
    found = list(rows[: limit + 1])
    return ReportPage(found[:limit], str(found[limit - 1].pk) if len(found) > limit else None)


def get_report(tenant: Tenant, pk: uuid.UUID) -> FileReport:
    """Return a report of the tenant. Raise `FileReport.DoesNotExist` if the tenant has no such report."""
    return FileReport.objects.filter(tenant=tenant).get(pk=pk)


def report_of_handoff(tenant: Tenant, handoff: uuid.UUID) -> FileReport | None:
    """Return the report from which the handoff was made, or None."""
    return FileReport.objects.filter(tenant=tenant).defer("content").filter(handoff=handoff).first()


_Text = Annotated[str, BeforeValidator(str)]

# The API returns null for an empty text.
_Given = Annotated[str | None, BeforeValidator(lambda text: text or None)]


def _reasons(fallback: str, info: ValidationInfo) -> list[str]:
    return [one for one in (info.data["reason"], fallback) if one]


class ReportSummary(BaseModel):
    """A report as lists show it, read from the row of the report."""

    model_config = ConfigDict(from_attributes=True)

    id: _Text = Field(description="The report's id.")
    handoff: _Text = Field(description="The id of the handoff that stores the report.")
    timestamp: Annotated[str, BeforeValidator(utc_text)] = Field(
        validation_alias="at", description="When the file was checked."
    )
    agent: str = Field(description="The agent expected to write the file.")
    phase: str = Field(description="The phase of the run.")
    runtime: _Given = Field(description="The runtime of the agent; null if unknown.")
    run_id: str = Field(description="The id of the run.")
    iteration: _Given = Field(description="The iteration of the phase; null if unknown.")
    expected_path: str = Field(description="The expected path of the file.")
    wrong_path: _Given = Field(
        description="Where a file with the expected name was found instead, the nearest of several; null if none."
    )
    source: str = Field(description="handoff_json or text_fallback.", examples=["text_fallback"])
    reason: _Given = Field(
        description="file_missing, json_parse_error or schema_invalid; null if the file was used.",
        examples=["file_missing"],
    )
    fallback: _Given = Field(
        description="text_fallback_ok or text_fallback_fail; null if the file was used or there was no text."
    )
    reasons: Annotated[list[str], BeforeValidator(_reasons)] = Field(
        validation_alias="fallback", description="The values of reason and fallback that are not null."
    )
    failed: bool = Field(description="Whether the phase failed by the policy in force when the report arrived.")


# A stored answer can lack members that later releases added.
_NO_ANSWER: Final[Mapping[str, Any]] = {"handoff_id": "", "policy": {}, "why": "", "issues": [], "line": ""}


def answer_of(report: FileReport) -> dict[str, Any]:
    """Return the answer that the sender of the report got; a member that was not stored is empty."""
    return {**_NO_ANSWER, **orjson.loads(report.content)}


LONGEST_PATH: Final = 1000

# These fields and the time identify a report. The other fields only describe how the sender read the file.
_IDENTITY: Final = ("run_id", "agent", "phase", "expected_path", "file", "response_text")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """The outcome of receiving a report.

    `report` is None if the report was malformed or refused; see `receipt`. If retention removed the stored report,
    `report` is made anew from the repeated one and is not stored.
    """

    receipt: Receipt
    report: FileReport | None = None

    @property
    def is_new(self) -> bool:
        return self.receipt.status == 202


def receive_report(tenant: Tenant, sender: Actor, sent: bytes, handoff_id: str = "") -> ReceivedReport:
    """Store a report. If the same report was stored before, return the stored report.

    A report with a `timestamp` or a `handoff_id` can be recognized. Any other report is always new.
    """
    document, unreadable = parse_json(sent, max_depth=settings.MAX_NESTING)
    flaws = tuple(report_flaws(document)) if isinstance(document, dict) else ()
    if unreadable or flaws or not isinstance(document, dict):
        return ReceivedReport(store.accept(tenant, sender, _make_submission(sent, handoff_id, flaws)))
    made = "" if handoff_id else _derive_id(document)
    return _store(tenant, sender, document, _make_submission(sent, handoff_id or made), known_by_content=bool(made))


def _make_submission(sent: bytes, handoff_id: str, flaws: tuple[Issue, ...] = ()) -> Submission:
    return Submission(sent, format=NAME, envelope=Envelope(handoff_id=handoff_id or None), issues=flaws)


def _derive_id(document: Mapping[str, Any]) -> str:
    """Return an id derived from the content, or an empty text for a report without a time."""
    at = moment(document.get("timestamp"))
    if at is None:
        return ""
    identity = [at.at.isoformat(), *(document.get(name) for name in _IDENTITY)]
    return f"file-report:{hashlib.sha256(canonical(identity)).hexdigest()[:40]}"


def _store(
    tenant: Tenant, sender: Actor, document: Mapping[str, Any], submission: Submission, *, known_by_content: bool
) -> ReceivedReport:
    with write_turn(), transaction.atomic():
        receipt = store.accept(tenant, sender, submission)
        if receipt.status == 202:
            report, line = _make_row(tenant, document, receipt)
            report.save(force_insert=True)
            file_stats.count_health(tenant.pk, Counter([_count_key(line)]))
            event_log.log_file_report(line, tenant.pk, str(report.pk), failed=report.failed)
            return ReceivedReport(receipt, report)
        may_be_known = receipt.status == 200 or (receipt.status == 409 and known_by_content)
        if not may_be_known:
            return ReceivedReport(receipt)
        known = FileReport.objects.filter(tenant=tenant, handoff=receipt.id).first()
        if known is None:
            report, _ = _make_row(tenant, document, receipt)
            # Retention may have removed the row. The repeated report then gets the same answer, but is neither stored
            # nor counted again.
            known = report if _was_removed(report) else None
    return ReceivedReport(receipt, known)


def _was_removed(report: FileReport) -> bool:
    """Return whether retention removed the report's row.

    Otherwise, the row is missing because the handoff stored under the sent `handoff_id` was never a file report.
    """
    removed = RetentionRun.objects.filter(
        tenant=report.tenant, kind=Data.FILE_REPORTS.value, removed_before__gt=report.at
    ).first()
    came = Handoff.objects.filter(tenant=report.tenant, pk=report.handoff, format=NAME)
    return removed is not None and came.filter(received_at__lt=removed.removed_at).exists()


def _make_row(tenant: Tenant, document: Mapping[str, Any], receipt: Receipt) -> tuple[FileReport, HealthLine]:
    finding, at = judge_report(document), _read_time(document)
    line = health_line(document, finding, at)
    arrived = Handoff.objects.values_list("received_at", flat=True).get(tenant=tenant, pk=receipt.id)
    strict = policy_at(tenant, arrived)
    report = FileReport(
        # The id contains the time in the report, so that lists and periods need no other index.
        id=uuid_utils.compat.uuid7(nanoseconds=int(at.timestamp() * 1000) * 1_000_000),
        tenant=tenant,
        handoff=uuid.UUID(receipt.id),
        # The time has whole seconds, as in the log line, because it is used to match log lines that are uploaded later.
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
        failed=has_phase_failed(finding, strict=strict.strict),
    )
    answer = _make_answer(report, receipt.handoff_id, finding, line, strict)
    report.content = orjson.dumps(answer).decode()
    return report, line


def _count_key(line: HealthLine) -> file_stats.HealthKey:
    why = (str(line.source), str(line.reason or ""), str(line.fallback or ""))
    return file_stats.HealthKey(hour_of(line.at), line.agent, line.phase, line.runtime, *why)


def _read_time(document: Mapping[str, Any]) -> datetime:
    """Return the time in the report, or the current time if the report has no time or its clock is ahead.

    With its own time, a report from a clock that is ahead would stay first in all lists.
    """
    given, now = moment(document.get("timestamp")), timezone.now()
    return now if given is None else max(_EPOCH, min(given.at, now))


def _make_answer(
    report: FileReport, handoff_id: str, finding: FileFinding, line: HealthLine, strict: FilePolicy
) -> dict[str, Any]:
    return ReportSummary.model_validate(report).model_dump() | {
        "handoff_id": handoff_id,
        "policy": {"strict_handoff_files": strict.strict, "version": strict.version},
        **describe_report(finding, strict=strict.strict),
        "line": write_health(line),
    }


def recount_days(*, repair: bool = True) -> Difference:
    """Compare the counts of handoff files by day and by hour with `HealthCount`; if `repair` is set, correct them."""
    rows = total = 0
    for aggregate in (DAILY_FILES, HOURLY_FILES):
        while wrong := _find_differences(aggregate):
            total += len(wrong)
            if repair:
                recount.correct(aggregate, wrong)
            if not repair or len(wrong) < recount.MOST_DIFFERENCES:
                break
        rows += aggregate.model._default_manager.count()  # noqa: SLF001 -- Django's documented API
    return Difference(rows, total)


def _find_differences(aggregate: Aggregate[Any]) -> recount.Found:
    """Return the true numbers minus the stored numbers of each wrong count, from one snapshot."""
    by, numbers = ("tenant_id", *aggregate.key[1:]), aggregate.numbers
    true: QuerySet[Any] = HealthCount.objects.order_by()
    if aggregate is DAILY_FILES:
        each = {name: Case(When(condition, then=F("number"))) for name, condition in TALLY_CONDITIONS.items()}
        true = true.annotate(day=TruncDate("hour", tzinfo=UTC), **each)
    stored = aggregate.model._default_manager.order_by()  # noqa: SLF001 -- Django's documented API
    sums = [f"CAST(COALESCE(SUM({name}), 0) AS bigint)" for name in numbers]
    differs = " OR ".join(f"COALESCE(SUM({name}), 0) <> 0" for name in numbers)
    parts = [true.values_list(*by, *numbers), stored.values_list(*by, *(-F(name) for name in numbers))]
    rows = sum_rows(parts, by, sums, f"HAVING {differs} LIMIT {recount.MOST_DIFFERENCES}")
    return {recount.parse_key(aggregate, row[: len(by)]): row[len(by) :] for row in rows}
