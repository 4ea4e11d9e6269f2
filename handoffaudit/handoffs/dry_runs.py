"""Dry runs of policy drafts, which workers run on past handoffs: planning, running and storing them."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson
import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import dry_run_prompts, leases, lineage, notify, policy_cases, tool_results
from handoffaudit.handoffs.case_results import Status
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HandoffBody, Trial
from handoffaudit.handoffs.verdicts import PriorContext, chunk_by_size, verdict_on_stored
from handoffaudit.policy import kinds
from handoffaudit.policy.models import Kind
from handoffaudit.validation.config import ANY_OTHER_TYPE, ValidationConfig
from handoffaudit.validation.issues import Severity, is_counted
from handoffaudit.validation.verdict import Outcome, Verdict

log = structlog.get_logger(__name__)

MOST = 5000

PART = 20

MOST_SHOWN = 200

# The first handoffs of each kind of change, up to this number, are listed even when the list is full. Otherwise,
# frequent changes would hide rare changes.
MOST_OF_A_FLIP = 50

MOST_LISTED = 5

MOST_CODES = 5

TRIES = 3

MOST_UNFINISHED = 5

KEPT = timedelta(days=7)


def plan(
    *,
    tenant: Tenant,
    kind: Kind,
    content: dict[str, object],
    base_version: int,
    actor: str,
    handoff_types: Sequence[str] = (),
    most: int = MOST,
    since: datetime | None = None,
) -> Trial:
    """Return an unsaved dry run of the draft `content`. Without `handoff_types`, the dry run covers all types.

    For a draft of strictness, `ANY_OTHER_TYPE` stands for all types without a row of their own in the draft.

    Raise `InvalidPolicy` for a draft that could not be saved as a policy.
    """
    kinds.draft_config(tenant.pk, kind, content)
    trial = Trial(
        tenant=tenant,
        kind=kind,
        draft=orjson.dumps(content).decode(),
        base_version=base_version,
        handoff_types=list(handoff_types),
        most=max(1, min(most, dry_run_prompts.MOST if kind == Kind.PROMPTS else MOST)),
        since=since,
        started_by=actor[:200],
    )
    trial.total = _filter_handoffs(trial)[: trial.most].count()
    # Prompts change only the findings of the LLM, and cases are judged without the LLM.
    total = 0 if kind == Kind.PROMPTS else policy_cases.list_cases(tenant).count()
    trial.cases = (
        {"total": total, "tested": 0, "needs_llm": 0, "failed": 0, "reached": "", "failing": []} if total else {}
    )
    return trial


def start(**wanted: Any) -> Trial:
    """Plan a dry run with the arguments of `plan`, save it, and notify the workers."""
    return begin(plan(**wanted))


def begin(trial: Trial) -> Trial:
    """Save a planned dry run and notify the workers.

    Delete the tenant's dry runs that are older than `KEPT`, and end its oldest unfinished dry runs if there are too
    many.
    """
    # Nobody needs results that are a week old, and drafts may be large.
    Trial.objects.filter(tenant=trial.tenant_id, started_at__lt=timezone.now() - KEPT).delete()
    _make_room(trial.tenant)
    if not trial.total and not trial.cases:
        trial.finished_at = timezone.now()
    trial.save()
    notify.notify_dry_runs(with_model=trial.kind == Kind.PROMPTS)
    return trial


def estimate_cost(trial: Trial) -> dry_run_prompts.Cost:
    """Estimate the cost of a planned dry run of prompts."""
    newest = list(_filter_handoffs(trial)[: min(trial.total, dry_run_prompts.SAMPLE)])
    return dry_run_prompts.estimate_cost_of_prompts(newest, trial.total, trial.tenant_id, *_load_configs(trial))


def _make_room(tenant: Tenant) -> None:
    """End the oldest unfinished dry runs of the tenant, so that there is room for one more.

    The dry runs of all tenants run one after another, and no tenant may fill the queue.
    """
    unfinished = Trial.objects.filter(tenant=tenant, finished_at=None).order_by("-id")
    too_many = list(unfinished.values_list("pk", flat=True)[MOST_UNFINISHED - 1 :])
    leases.end(
        Trial.objects.filter(pk__in=too_many, finished_at=None),
        finished_at=timezone.now(),
        error="The dry run was ended early, because newer dry runs took its place.",
    )


def get(tenant: Tenant, pk: uuid.UUID) -> Trial:
    """Return a dry run of the tenant. Raise `Trial.DoesNotExist`."""
    return Trial.objects.get(tenant=tenant, pk=pk)


def list_recent(tenant: Tenant, kind: Kind) -> list[Trial]:
    """Return the newest dry runs of a kind, without their drafts and changed handoffs."""
    rows = Trial.objects.filter(tenant=tenant, kind=kind, started_at__gte=timezone.now() - KEPT)
    return list(rows.defer("draft", "changed").order_by("-id")[:MOST_LISTED])


def cancel(*, tenant: Tenant, pk: uuid.UUID, actor: str) -> bool:
    """End a dry run with its results so far. Return False if the dry run has ended already.

    The worker of the dry run notices the lost lease and stops.
    """
    found = Trial.objects.filter(tenant=tenant, pk=pk, finished_at=None)
    message = f"{actor[:200]} stopped the dry run."
    return leases.end(found, finished_at=timezone.now(), error=message)


def judge_again(trial: Trial, handoff: Handoff) -> tuple[Verdict, Verdict]:
    """Judge the handoff with the current policy and with the draft, without any call to the LLM.

    A dry run of prompts uses its stored answers. Raise `InvalidPolicy` for a draft that could no longer be saved,
    `dry_run_prompts.AnswerNotStored` if an answer was deleted, and `HandoffBody.DoesNotExist` if the documents were
    removed.
    """
    in_force, draft = _load_configs(trial)
    if trial.kind == Kind.PROMPTS:
        pair = dry_run_prompts.judge_from_stored_answers(handoff, in_force, draft)
        if pair.now and pair.then:
            return pair.now, pair.then
    evidence = tool_results.load_evidence([handoff]).of(handoff)
    before = PriorContext(lineage.load_histories([handoff])[handoff.pk], evidence=evidence)
    body = HandoffBody.objects.get(pk=handoff.pk)
    return verdict_on_stored(handoff, body, before, in_force), verdict_on_stored(handoff, body, before, draft)


def run_waiting(*, with_model: bool = False) -> int:
    """Run the waiting dry runs that need the LLM, or without `with_model` the others. Return the number finished."""
    finished = 0
    while trial := _take(with_model=with_model):
        finished += _run(trial)
    return finished


def is_anything_waiting(*, with_model: bool = False) -> bool:
    return _filter_waiting(with_model=with_model).exists()


def end_waiting_for_llm(error: str) -> bool:
    """End the waiting dry runs that need the LLM, and return whether there were any."""
    return leases.end(_filter_waiting(with_model=True), finished_at=timezone.now(), error=error)


def _filter_waiting(*, with_model: bool) -> "QuerySet[Trial]":
    of_prompts = Q(kind=Kind.PROMPTS)
    return Trial.objects.filter(leases.is_free(), of_prompts if with_model else ~of_prompts, finished_at=None)


def _take(*, with_model: bool) -> Trial | None:
    for pk in _filter_waiting(with_model=with_model).order_by("id").values_list("pk", flat=True)[:10]:
        free = _filter_waiting(with_model=with_model).filter(pk=pk)
        if leases.take(free, uuid.uuid4(), seconds=_lease_seconds(with_model=with_model), **leases.COUNT_TRY):
            trial = Trial.objects.get(pk=pk)
            if trial.tries <= TRIES:
                return trial
            _finish(trial, "The dry run failed. The worker's log says why.")
    return None


def _lease_seconds(*, with_model: bool) -> float:
    calls = dry_run_prompts.CALLS_OF_ONE * settings.MODEL_SECONDS if with_model else 0
    return float(settings.LEASE_SECONDS + calls)


def _load_configs(trial: Trial) -> tuple[ValidationConfig, ValidationConfig]:
    """Return the current configuration, and the same configuration with the draft."""
    draft = kinds.draft_config(trial.tenant_id, Kind(trial.kind), orjson.loads(trial.draft))
    return kinds.load_config(trial.tenant_id), draft


def _run(trial: Trial) -> bool:
    """Judge batch after batch. Return False if another worker took over the dry run, or somebody ended the dry run."""
    in_force, draft = _load_configs(trial)
    with_model = trial.kind == Kind.PROMPTS
    if trial.cases and not _judge_cases(trial):
        return False
    while trial.judged < trial.total:
        found = list(_list_next(trial))
        if not found:
            break
        # A worker must judge a batch within its lease, so large handoffs form smaller batches.
        for part in chunk_by_size(found):
            ended = (_ask if with_model else _judge)(trial, part, in_force, draft)
            if ended:
                return _finish(trial, ended)
            if not _keep(trial):
                return False
    return _finish(trial)


def _judge_cases(trial: Trial) -> bool:
    """Judge the cases with the draft, and failing cases also with the current policy.

    Return False if the lease was lost.
    """
    draft = {Kind(trial.kind): kinds.KINDS[Kind(trial.kind)].from_plain(orjson.loads(trial.draft))}
    in_force, then = (policy_cases.CasePolicy.of_tenant(trial.tenant, one) for one in ({}, draft))
    reached = uuid.UUID(trial.cases["reached"]) if trial.cases["reached"] else None
    found = policy_cases.list_cases(trial.tenant, after=reached)
    for number, case in enumerate(found.iterator(chunk_size=PART), 1):
        result = policy_cases.judge_case(case, then)
        trial.cases["tested"] += 1
        trial.cases["reached"] = str(case.pk)
        trial.cases["needs_llm"] += result.status is Status.NEEDS_LLM
        trial.cases["failed"] += result.status is Status.FAILED
        if result.status is Status.FAILED and len(trial.cases["failing"]) < MOST_SHOWN:
            before = policy_cases.judge_case(case, in_force).status
            row = {"case": str(case.pk), "handoff": str(case.handoff), "passes_now": before is Status.PASSED}
            trial.cases["failing"].append(row | result.to_plain())
        if number % PART == 0 and not _keep(trial):
            return False
    return _keep(trial)


def _filter_handoffs(trial: Trial) -> "QuerySet[Handoff]":
    rows = Handoff.objects.filter(tenant=trial.tenant_id).exclude(state__in=WAITING_STATES)
    if trial.kind == Kind.STRICTNESS and ANY_OTHER_TYPE in trial.handoff_types:
        own = {row["handoff_type"] for row in orjson.loads(trial.draft)["rows"]}
        rows = rows.exclude(handoff_type__in=own.difference(trial.handoff_types))
    elif trial.handoff_types:
        rows = rows.filter(handoff_type__in=trial.handoff_types)
    if trial.since:
        rows = rows.filter(id__gte=first_id_at(trial.since))
    return rows.order_by("-id")


def _list_next(trial: Trial) -> "QuerySet[Handoff]":
    rows = _filter_handoffs(trial)
    if trial.reached:
        rows = rows.filter(id__lt=trial.reached)
    part = dry_run_prompts.AT_ONCE if trial.kind == Kind.PROMPTS else PART
    return rows[: min(part, trial.total - trial.judged)]


def _ask(trial: Trial, part: list[Handoff], in_force: ValidationConfig, draft: ValidationConfig) -> str:
    """Judge a batch with the LLM. Return the reason why the dry run ends, empty if the dry run continues."""
    ended = ""
    for pair in dry_run_prompts.judge_twice(part, in_force, draft):
        if pair.now and pair.then and _read_outcomes(pair.now) != _read_outcomes(pair.then):
            _record_change(trial, pair.handoff, pair.now, pair.then)
        trial.removed += pair.is_removed
        if pair.outage:
            trial.unasked += 1
            ended = ended or (f"The LLM is unavailable: {pair.outage.detail}" if pair.ends_it else "")
    _count_judged(trial, part)
    return ended


def _judge(trial: Trial, part: list[Handoff], in_force: ValidationConfig, draft: ValidationConfig) -> str:
    histories = lineage.load_histories(part)
    evidence = tool_results.load_evidence(part)
    bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in part])
    for handoff in part:
        body = bodies.get(handoff.pk)
        if body is None:
            trial.removed += 1
            continue
        before = PriorContext(histories[handoff.pk], evidence=evidence.of(handoff))
        now, then = (verdict_on_stored(handoff, body, before, config) for config in (in_force, draft))
        if _read_outcomes(now) != _read_outcomes(then):
            _record_change(trial, handoff, now, then)
    _count_judged(trial, part)
    return ""


def _count_judged(trial: Trial, part: list[Handoff]) -> None:
    trial.judged += len(part)
    trial.reached = part[-1].pk


def _read_outcomes(verdict: Verdict) -> tuple[Outcome, Outcome]:
    # In shadow mode, only the structure layer rejects, but people use dry runs to see what a draft would reject without
    # shadow mode.
    return verdict.outcome, verdict.would_decide


def _record_change(trial: Trial, handoff: Handoff, now: Verdict, then: Verdict) -> None:
    before, after = now.outcome, then.outcome
    if before is after:
        before, after = now.would_decide, then.would_decide
    flip = f"{before.value}>{after.value}"
    trial.flips[flip] = trial.flips.get(flip, 0) + 1
    if len(trial.changed) < MOST_SHOWN or trial.flips[flip] <= MOST_OF_A_FLIP:
        # An accepting verdict has no decisive findings. If the draft accepts the handoff, list the findings that
        # decided the current verdict.
        levels = _list_decisive(then if after is not Outcome.ACCEPTED else now)
        codes = list(levels)[:MOST_CODES]
        row: dict[str, Any] = {"handoff": str(handoff.pk), "handoff_id": handoff.handoff_id, "codes": codes}
        row |= {"levels": [levels[code] for code in codes], "deciding": len(levels)}
        trial.changed.append(row | {"before": before.value, "after": after.value})


def _list_decisive(verdict: Verdict) -> dict[str, str]:
    """Return the decisive rule codes of this verdict with their severity, gravest first.

    If no finding blocks the handoff, all findings except notes are decisive. The severity is taken from the
    verdict, because a draft can raise a warning to an error.
    """
    deciding = [issue for issue in verdict.issues if issue.blocks]
    deciding = deciding or [issue for issue in verdict.issues if is_counted(issue.severity)]
    found: dict[str, str] = {}
    for issue in sorted(deciding, key=lambda one: (-list(Severity).index(one.severity), one.code)):
        found.setdefault(issue.code, issue.severity.value)
    return found


def _keep(trial: Trial) -> bool:
    """Store the progress of the dry run and renew its lease. Return False if the lease was lost."""
    seconds = _lease_seconds(with_model=trial.kind == Kind.PROMPTS)
    return leases.renew(leases.filter_held(Trial, trial.pk, trial.claim), seconds=seconds, **_read_progress(trial))


def _finish(trial: Trial, error: str = "") -> bool:
    held = leases.filter_held(Trial, trial.pk, trial.claim)
    return leases.end(held, finished_at=timezone.now(), error=error[:500], **_read_progress(trial))


def _read_progress(trial: Trial) -> dict[str, Any]:
    names = ("judged", "reached", "flips", "changed", "unasked", "removed", "cases")
    return {name: getattr(trial, name) for name in names}
