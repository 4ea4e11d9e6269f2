"""Second judging of handoffs after tool results of their trace arrived late.

Only handoffs with ungrounded or reported values, and handoffs that had no source for their values, are judged again.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import msgspec
import orjson
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from handoffaudit.handoffs import attempts, judge, leases, lineage, tool_results, trace_facts
from handoffaudit.handoffs.models import Handoff, JudgeLease, LateResults, State
from handoffaudit.handoffs.models import Verdict as VerdictRow
from handoffaudit.handoffs.repair_cases import issue_of
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.tool_results import TraceEvidence
from handoffaudit.handoffs.verdicts import PriorContext, chunk_by_size, load_bodies, verdict_on_stored
from handoffaudit.policy import kinds
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import MODEL_LAYERS, CouldNotRunError, Layer, Subject, grounding
from handoffaudit.validation.pipeline import layers_with_model
from handoffaudit.validation.verdict import Critique, LayerStatus, Outcome, Verdict, verdict_to_dict

log = structlog.get_logger(__name__)

# Only this many of the newest handoffs of a trace are judged again.
MOST_HANDOFFS: Final = 200
_VERDICTS_AT_ONCE: Final = 25
# After this many errors, a trace is given up.
_MOST_TRIES: Final = 8

_STANDING: Final = (State.ACCEPTED, State.HELD, State.APPROVED, State.REJECTED)
_GROUNDED: Final = frozenset({"grounded", "derived"})
_BY_MODEL: Final = frozenset(layer.name for layer in MODEL_LAYERS)


def is_anything_waiting() -> bool:
    return LateResults.objects.filter(leases.is_free()).exists()


def drain() -> int:
    """Judge again the handoffs of the waiting traces; return the number of stored verdicts.

    Traces whose tries all failed are removed from the queue.
    """
    LateResults.objects.filter(leases.is_exhausted(_MOST_TRIES)).delete()
    stored = 0
    while lease := _take():
        # An exception here is a bug of this product. It must not affect the other traces.
        try:
            stored += _judge_trace(lease)
        except Exception as error:
            if lease.undo_if_blameless(error):
                raise
            log.exception("handoffs could not be judged again with late tool results", trace=lease.row.trace_id)
            lease.release()
    return stored


@dataclass(slots=True)
class Lease:
    """A lease of one worker on a trace. `is_done` is False if a handoff of the trace has to be tried again."""

    token: uuid.UUID
    row: LateResults
    is_done: bool = True

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        """Lock the handoffs and their lineages; return the judged handoffs that have not changed meanwhile."""
        found = list(judged)
        attempts.lock([one.handoff for one in found])
        rows = Handoff.objects.filter(tenant=self.row.tenant_id, pk__in=[one.handoff.pk for one in found])
        versions = dict(rows.values_list("pk", "version"))
        held = [one for one in found if versions.get(one.handoff.pk) == one.handoff.version]
        self.is_done = self.is_done and len(held) == len(found)
        return held

    def end(self) -> None:
        """Do nothing, because the lease is on the trace and ends after its last handoff."""

    def release(self) -> None:
        leases.release(self._filter_held(), self.row.tries)

    def undo_if_blameless(self, error: BaseException) -> bool:
        return leases.undo_if_blameless(self._filter_held(), error)

    def finish(self) -> None:
        """Remove the trace from the queue, unless it has to be tried again or more results arrived meanwhile."""
        if not self.is_done:
            # A handoff is still being judged, or has changed. Neither is a failed try. The pause is as long as the
            # trace has waited so far, but at least 1 second and at most `LEASE_SECONDS`.
            waited = (timezone.now() - self.row.since).total_seconds()
            later = leases.compute_expiry(min(max(waited, 1), settings.LEASE_SECONDS))
            leases.end(self._filter_held(), at=later, tries=0)
        elif not self._filter_held().filter(since=self.row.since).delete()[0]:
            leases.end(self._filter_held())

    def _filter_held(self) -> Any:
        return leases.filter_held(LateResults, self.row.pk, self.token)


def _take() -> Lease | None:
    with transaction.atomic():
        token, rows = leases.take_first(
            LateResults,
            "(claim_expires_at IS NULL OR claim_expires_at < %s) AND tries < %s",
            [timezone.now(), _MOST_TRIES],
            order="id",
            limit=1,
            changes="tries = tries + 1",
        )
    return Lease(token, rows[0]) if rows else None


def _judge_trace(lease: Lease) -> int:
    row = lease.row
    of_trace = Handoff.objects.filter(tenant=row.tenant_id, trace_id=row.trace_id)
    # A worker that is judging a handoff of the trace may have read the evidence before the late results arrived. A
    # handoff that waits for a worker or for the LLM needs nothing here: the worker that takes it reads the results.
    is_judged_now = ~Q(claim=None) | ~Q(check_due__claim=None) | Q(pk__in=JudgeLease.select_handoffs())
    lease.is_done = not of_trace.filter(is_judged_now).exists()
    newest = sorted(
        of_trace.filter(state__in=_STANDING).exclude(verdict=None).order_by("-id")[:MOST_HANDOFFS], key=attrgetter("pk")
    )
    evidence = tool_results.load_evidence(newest)
    stored = 0
    for start in range(0, len(newest), _VERDICTS_AT_ONCE):
        some = [one for one in newest[start : start + _VERDICTS_AT_ONCE] if evidence.of(one)]
        contents = _load_open_verdicts(some)
        for part in chunk_by_size([one for one in some if one.pk in contents]):
            leases.renew(leases.filter_held(LateResults, row.pk, lease.token))
            stored += _judge_part(lease, part, contents, evidence)
    lease.finish()
    return stored


def _load_open_verdicts(handoffs: Sequence[Handoff]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return the verdicts that have an ungrounded or reported value, or had no source for their values, by handoff."""
    if not handoffs:
        return {}
    wanted = VerdictRow.objects.filter(tenant=handoffs[0].tenant_id, pk__in=[one.verdict for one in handoffs])
    found = ((pk, orjson.loads(content)) for pk, content in wanted.values_list("handoff_id", "content").iterator())
    return {pk: content for pk, content in found if _is_open(content)}


def _is_open(content: dict[str, Any]) -> bool:
    if any(layer["name"] == grounding.name and layer["why"] == grounding.NO_SOURCES for layer in content["layers"]):
        return True
    claims = content.get("claims") or ()
    return any(value["status"] not in _GROUNDED for claim in claims for value in claim["values"])


def _judge_part(
    lease: Lease, handoffs: list[Handoff], contents: dict[uuid.UUID, dict[str, Any]], evidence: TraceEvidence
) -> int:
    bodies = load_bodies([one.pk for one in handoffs])
    config = kinds.load_config(lease.row.tenant_id)
    histories = lineage.load_histories(handoffs)
    facts = trace_facts.load_facts(handoffs)
    records = attempts.load_records(handoffs)
    judged = []
    for handoff in handoffs:
        body = bodies.get(handoff.pk)
        if body is None:
            # Retention removed the document.
            continue
        content = contents[handoff.pk]
        record = records.get(handoff.lineage)
        before = PriorContext(histories[handoff.pk], record, facts, evidence.of(handoff))
        verdict = verdict_on_stored(handoff, body, before, config, layers=list(_layers(content)))
        if verdict_to_dict(verdict)["claims"] == content["claims"]:
            continue
        policy = config.policy_for(handoff.handoff_type)
        one = JudgedHandoff(
            handoff,
            handoff.state,
            # A held handoff has no action yet, so the new verdict decides the action.
            verdict if handoff.state == State.HELD else _keep_action(verdict, content),
            policy,
            fact=facts.fact_of(handoff.pk),
            has_late_results=True,
        )
        # The sender knows that the handoff is rejected, so a new verdict must not hold it for a reviewer.
        if handoff.state != State.REJECTED or verdict.outcome is not Outcome.HELD:
            judged.append(one)
    return judge.finish(judged, lease) if judged else 0


def _keep_action(verdict: Verdict, content: dict[str, Any]) -> Verdict:
    """Return the verdict without a remediation log. Only a handoff that is still rejected keeps its stored action.

    The log counts attempts, and the sender has made no new attempt.
    """
    still_rejected = content["outcome"] == verdict.outcome == Outcome.REJECTED
    action = content.get("recommended_action") if still_rejected else None
    return msgspec.structs.replace(verdict, remediation=None, recommended_action=action)


def _layers(content: dict[str, Any]) -> Iterator[Layer]:
    """Yield the layers to run. The LLM is not asked again, so each LLM layer repeats its stored result."""
    yield from (layer for layer in layers_with_model() if layer.name not in _BY_MODEL)
    yield from (_Stored(layer["name"], layer, content) for layer in content["layers"] if layer["name"] in _BY_MODEL)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A layer that repeats the result of an LLM layer from a stored verdict."""

    name: str
    result: dict[str, Any]
    content: dict[str, Any]

    def skip(self, subject: Subject) -> str | None:
        skipped: str = self.result["why"]
        return skipped if self.result["status"] == LayerStatus.SKIPPED else None

    def check(self, subject: Subject) -> list[Issue]:
        findings, content = subject.findings, self.content
        if self.result["status"] == LayerStatus.ERROR:
            raise CouldNotRunError(self.result["why"])
        findings.notes[self.name] = self.result["why"]
        findings.unverified = findings.unverified or content["unverified"]
        if self.name in content["prompts"]:
            findings.prompts[self.name] = content["prompts"][self.name]
        if content["validator_model"]:
            findings.models["semantic"] = content["validator_model"]
        if content["critique"]:
            findings.critique = _critique_of(content["critique"])
        document = subject.record.document
        return [issue_of(one, document) for one in content["issues"] if one["layer"] == self.name]


def _critique_of(plain: dict[str, Any]) -> Critique:
    names = ("model_used", "triggered_by", "overall_score", "reasoning", "cost_usd", "latency_ms")
    return Critique(**{name: plain[name] for name in names}, issues_found=tuple(plain["issues_found"]))
