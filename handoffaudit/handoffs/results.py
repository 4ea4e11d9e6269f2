"""Storage of verdicts, each with its findings, its event, and the handoff's new state.

`judge.finish` calls this module for every verdict on a leased handoff.
"""

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
from django.db.models import F

from handoffaudit.handoffs import counts, db, event_log, leases
from handoffaudit.handoffs.models import Event, Finding, Handoff, State
from handoffaudit.handoffs.models import Verdict as VerdictRow
from handoffaudit.handoffs.transitions import EVENT, SYSTEM, start_row
from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.issues import Issue, Severity, is_counted
from handoffaudit.validation.layers import MODEL_LAYERS, entry_of
from handoffaudit.validation.remediation import Action
from handoffaudit.validation.verdict import LayerStatus, Outcome, Verdict, verdict_to_dict

if TYPE_CHECKING:
    from handoffaudit.handoffs.repairs import RepairResult
    from handoffaudit.handoffs.trace_facts import Fact

VERDICT = db.Columns.of(VerdictRow, "id", "tenant", "handoff", "outcome", "policy_version", "validated_at", "content")

FINDING = db.Columns.of(Finding, "tenant", "handoff", "code", "severity", "layer", "field_path")

UPDATED = db.Columns.of(
    Handoff,
    *("state", "judged_at", "verdict", "score", "codes", "token_count", "chain_length", "warnings", "would_decide"),
    *("approvable", "user_approved", "review_due_at", "escalated", "unverified"),
)

# A verdict with pending LLM layers sets only these columns of its handoff. The final verdict sets the others.
PENDING = db.Columns.of(Handoff, "state", "tries", "verdict", "token_count", "chain_length")

LLM_PENDING = "the LLM is asked"

STATES = {Outcome.ACCEPTED: State.ACCEPTED, Outcome.REJECTED: State.REJECTED, Outcome.HELD: State.HELD}

_BY_MODEL = frozenset(layer.name for layer in MODEL_LAYERS)

_GRAVE = (Severity.ERROR, Severity.CRITICAL)


@dataclass(frozen=True, slots=True)
class JudgedHandoff:
    """A handoff, its state before the verdict, the verdict, the policy of its type, and its repair, if there is any.

    `fact` has the facts that the handoff brought into its trace, or is None. `has_late_results` says whether the
    handoff was judged again because tool results of its trace arrived later. `began_at` is the time at which a worker
    began to judge the handoff for the first time. It is None if the event for this time is stored already.
    """

    handoff: Handoff
    from_state: str
    verdict: Verdict
    policy: TypePolicy
    repaired: "Sequence[RepairResult]" = ()
    fact: "Fact | None" = None
    has_late_results: bool = False
    began_at: datetime | None = None

    @property
    def is_recheck(self) -> bool:
        """Return whether the handoff had a final verdict before."""
        return self.from_state != State.VALIDATING

    @property
    def state(self) -> State:
        """Return the state after the verdict. A recheck changes the state of held handoffs only.

        With late tool results, a rejected handoff can also become accepted.
        """
        decides = not self.is_recheck or self.from_state == State.HELD or self._is_freed
        return STATES[self.verdict.outcome] if decides else State(self.from_state)

    @property
    def _is_freed(self) -> bool:
        is_accepted = self.verdict.outcome is Outcome.ACCEPTED
        return self.has_late_results and self.from_state == State.REJECTED and is_accepted

    @property
    def flagged(self) -> bool:
        """Return whether the recheck found that the LLM would have rejected a handoff that was accepted or approved."""
        if self.has_late_results and not self.handoff.flagged:
            # The LLM was not asked again, and whoever approved the handoff knew the LLM's findings.
            return False
        # A finding of another layer can come from a newer policy, and then the earlier decision was right.
        stands = self.is_recheck and self.from_state not in (State.HELD, State.REJECTED)
        return stands and self.verdict.outcome is Outcome.REJECTED and _model_rejects(self.verdict)


def store(judged: Sequence[JudgedHandoff]) -> counts.Deltas:
    """Store the verdicts; call inside a transaction that holds the leases.

    Return the changes of the counts, which the caller applies last.
    """
    deltas = _store_first([one for one in judged if not one.is_recheck])
    for one in judged:
        if one.is_recheck:
            deltas.update(_replace(one))
    return deltas


def _store_first(judged: Sequence[JudgedHandoff]) -> counts.Deltas:
    deltas: counts.Deltas = Counter()
    events = []
    for one in judged:
        state = STATES[one.verdict.outcome]
        handoff, verdict = one.handoff, one.verdict
        deltas.update(counts.count_transition(counts.CountKey.of(handoff), list_codes(verdict), one.from_state, state))
        by = (SYSTEM.kind.value, SYSTEM.name)
        change = (str(one.from_state), state.value, describe_reason(verdict))
        if one.began_at:
            events.append(start_row(handoff, one.began_at))
        events.append([handoff.id, handoff.tenant_id, verdict.validated_at, *by, *change])
    if judged:
        _store_verdicts(judged)
        db.insert_rows(EVENT, events)
    return deltas


def store_pending(judged: Sequence[JudgedHandoff]) -> None:
    """Store the verdicts made before the LLM is asked. The handoffs are then `validating`; counts and findings stay."""
    if not judged:
        return
    db.insert_rows(VERDICT, [_verdict_row(one) for one in judged])
    by, state = (SYSTEM.kind.value, SYSTEM.name), State.VALIDATING.value
    rows, events = [], []
    for one in judged:
        handoff, verdict = one.handoff, one.verdict
        rows.append([state, handoff.tries, uuid.UUID(verdict.validation_id), _tokens(verdict), _chain_length(one)])
        if one.began_at:
            events.append(start_row(handoff, one.began_at))
        events.append([handoff.pk, handoff.tenant_id, verdict.validated_at, *by, state, state, LLM_PENDING])
    _update(PENDING, rows, [one.handoff.pk for one in judged])
    db.insert_rows(EVENT, events)


def _replace(judged: JudgedHandoff) -> counts.Deltas:
    """Replace the final verdict of a handoff with a later verdict; return the changes of the counts."""
    handoff, state, flagged = judged.handoff, judged.state, judged.flagged
    place = counts.CountKey.of(handoff)
    deltas = counts.count_transition(place, handoff.codes, handoff.state, State.VALIDATING)
    deltas.update(counts.count_transition(place, list_codes(judged.verdict), State.VALIDATING, state))
    event_log.log_verdicts([(handoff, judged.verdict)])
    Finding.objects.filter(tenant=handoff.tenant_id, handoff=handoff.pk).delete()
    verdict = _verdict_row(judged)
    db.insert_rows(VERDICT, [verdict])
    db.insert_rows(FINDING, _finding_rows(judged))
    row = dict(zip(UPDATED.names, _updated_row(judged, verdict[0]), strict=True))
    row |= {"state": state.value, "codes": list_codes(judged.verdict), "flagged": flagged}
    if state == State.HELD:
        # The reviewers keep their old deadline.
        del row["review_due_at"]
    else:
        row["review_due_at"] = None
    # After a failed repair, the handoff stays escalated until a verdict accepts it.
    row["escalated"] = (row["escalated"] or handoff.escalated) and state != State.ACCEPTED
    # The approval of a user stays valid.
    del row["user_approved"]
    Handoff.objects.filter(pk=handoff.pk).update(**row, version=F("version") + 1)
    Event.objects.create(
        tenant_id=handoff.tenant_id,
        handoff_id=handoff.pk,
        at=judged.verdict.validated_at,
        actor_kind=SYSTEM.kind,
        actor=SYSTEM.name,
        from_state=handoff.state,
        to_state=state,
        reason=_describe_recheck(judged),
    )
    return deltas


def _model_rejects(verdict: Verdict) -> bool:
    return any(issue.layer in _BY_MODEL and issue.severity in _GRAVE for issue in verdict.issues)


def _describe_recheck(judged: JudgedHandoff) -> str:
    description = describe_reason(judged.verdict)
    if judged.has_late_results:
        return f"judged again with tool results that arrived later: {description or 'no objection'}"
    if not any(one.name in _BY_MODEL and one.status is not LayerStatus.SKIPPED for one in judged.verdict.layers):
        by = "judged again: the LLM check no longer applies"
        return f"{by} ({description})" if description else by
    if judged.flagged:
        description = f"the LLM would have rejected the handoff ({description})"
    elif judged.verdict.outcome is Outcome.REJECTED and not _model_rejects(judged.verdict):
        description = f"no objection; the current policy would reject the handoff ({description})"
    return f"checked later by the LLM: {description or 'no objection'}"


def store_unreadable(rejected: Sequence[tuple[Handoff, Verdict]]) -> counts.Deltas:
    """Store the verdicts on unreadable handoffs.

    The same transaction has stored these handoffs as rejected, and their events. Return the changes of the counts,
    which the caller applies.
    """
    deltas: counts.Deltas = Counter()
    if not rejected:
        return deltas
    judged = [JudgedHandoff(handoff, "", verdict, TypePolicy(handoff_type="")) for handoff, verdict in rejected]
    for one in judged:
        deltas.update(
            counts.count_transition(counts.CountKey.of(one.handoff), list_codes(one.verdict), "", State.REJECTED)
        )
    _store_verdicts(judged)
    return deltas


def _store_verdicts(judged: Sequence[JudgedHandoff]) -> None:
    event_log.log_verdicts([(one.handoff, one.verdict) for one in judged])
    verdicts = [_verdict_row(one) for one in judged]
    db.insert_rows(VERDICT, verdicts)
    db.insert_rows(FINDING, [row for one in judged for row in _finding_rows(one)])
    rows = [_updated_row(one, verdict[0]) for one, verdict in zip(judged, verdicts, strict=True)]
    _update(UPDATED, rows, [one.handoff.id for one in judged])


def _update(columns: db.Columns, rows: list[list[Any]], pks: list[uuid.UUID]) -> None:
    """Update many handoffs, on PostgreSQL with one statement, because one UPDATE per handoff would be much slower."""
    if db.is_postgresql():
        with db.server_cursor() as cursor:
            values = [list(column) for column in zip(*rows, strict=True)]
            cursor.execute(_update_many(columns), [*values, pks], prepare=True, binary=True)
    else:
        rows = [[*row, pk.hex] for row, pk in zip(columns.adapt_rows(rows), pks, strict=True)]
        db.execute_each(_update_one(columns), rows)


@cache
def _update_many(columns: db.Columns) -> bytes:
    names = ", ".join(f'"{name}" = new."{name}"' for name in columns.names)
    return f"""
        UPDATE "{columns.table}" AS old SET {names}, version = version + 1, {leases.END_SQL}
        FROM unnest({columns.arrays}, %b::uuid[]) AS new ({columns.name_list}, id) WHERE old.id = new.id
    """.encode()  # noqa: S608


@cache
def _update_one(columns: db.Columns) -> str:
    names = ", ".join(f'"{name}" = %s' for name in columns.names)
    return f"""
        UPDATE "{columns.table}" SET {names}, version = version + 1, {leases.END_SQL} WHERE id = %s
    """  # noqa: S608


def _verdict_row(one: JudgedHandoff) -> list[Any]:
    handoff, verdict = one.handoff, one.verdict
    content = orjson.dumps(verdict_to_dict(verdict)).decode()
    row = [uuid.UUID(verdict.validation_id), handoff.tenant_id, handoff.id, verdict.outcome.value]
    return [*row, verdict.policy_version, verdict.validated_at, content]


def _finding_rows(one: JudgedHandoff) -> list[list[Any]]:
    return [
        [one.handoff.tenant_id, one.handoff.id, issue.code, issue.severity.value, issue.layer, _format_path(issue)]
        for issue in one.verdict.issues
        if is_counted(issue.severity)
    ]


def _format_path(issue: Issue) -> str:
    return issue.field_path[:500].replace("\x00", "\ufffd")


def _updated_row(one: JudgedHandoff, verdict_id: uuid.UUID) -> list[Any]:
    verdict = one.verdict
    held = verdict.outcome is Outcome.HELD
    due = verdict.validated_at + timedelta(hours=one.policy.hold_limit_hours) if held else None
    would = verdict.would_decide.value if verdict.would_decide is not verdict.outcome else ""
    found = list_codes(verdict)
    return [
        STATES[verdict.outcome].value,
        verdict.validated_at,
        verdict_id,
        verdict.quality_score,
        orjson.dumps(found).decode() if db.is_postgresql() else found,
        _tokens(verdict),
        _chain_length(one),
        any(issue.severity is Severity.WARNING and issue.code != counts.UNVERIFIED for issue in verdict.issues),
        would,
        all(entry_of(code).approvable for code in found),
        one.handoff.user_approved,
        due,
        verdict.outcome is Outcome.REJECTED and verdict.recommended_action == Action.ESCALATE,
        verdict.unverified and verdict.outcome is not Outcome.REJECTED,
    ]


def _tokens(verdict: Verdict) -> int | None:
    return verdict.token_counts.total if verdict.token_counts else None


def _chain_length(one: JudgedHandoff) -> int:
    return len(one.verdict.chain.shown) if one.verdict.chain else one.handoff.chain_length


def list_codes(verdict: Verdict) -> list[str]:
    return sorted({issue.code for issue in verdict.issues if is_counted(issue.severity)})


def describe_reason(verdict: Verdict) -> str:
    """Return the reason of the verdict's event: at most five decisive rule codes.

    For an accepted handoff, return the outcome without shadow mode if it differs, else an empty text.
    """
    if verdict.outcome is Outcome.ACCEPTED:
        return f"would be {verdict.would_decide.value} (shadow)" if verdict.would_decide != verdict.outcome else ""
    deciding = [issue for issue in verdict.issues if issue.severity in _GRAVE]
    deciding = deciding or [issue for issue in verdict.issues if issue.holds]
    return "; ".join(issue.code for issue in deciding[:5])
