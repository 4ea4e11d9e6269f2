"""Attempts at the same handoff, which form a lineage: a later attempt supersedes the earlier attempts.

The remediation record of a lineage holds the recommended actions so far, from which the next action follows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from django.db.models import F, Max, Q, Value
from django.db.models.functions import Coalesce, Least, NullIf
from django.utils import timezone

from handoffaudit.handoffs import counts, db, transitions
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff
from handoffaudit.handoffs.models import Handoff, Remediation, State
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.transitions import SYSTEM, Actor, may_become
from handoffaudit.validation import remediation
from handoffaudit.validation.config import Mode
from handoffaudit.validation.library.models import RemediationRecord
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.verdict import Outcome

# The largest number that the column `attempt` can hold.
MOST = 32_767


def lineage_of(handoff: Handoff) -> str:
    """Return the key that all attempts of a lineage share: the `handoff_id` of the first attempt."""
    return handoff.lineage or handoff.handoff_id


def find_lineage(tenant_id: int, handoff_id: str) -> str:
    """Return the lineage of the handoff with this id, or the id itself for a first attempt or an unknown id."""
    rows = Handoff.objects.filter(tenant=tenant_id, handoff_id=handoff_id)
    return rows.values_list("lineage", flat=True).first() or handoff_id


def find_by_server_id(tenant_id: int, names: Iterable[str]) -> dict[str, Handoff]:
    """Return the handoffs whose server ids are in `names`, by name. Leave out those whose `handoff_id` is that name."""
    ids = {}
    for name in names:
        with suppress(ValueError):
            ids[name] = UUID(name)
    # The server's ids have version 7, so most ids of senders need no query.
    ids = {name: pk for name, pk in ids.items() if pk.version == 7}
    rows = Handoff.objects.filter(tenant=tenant_id).in_bulk(ids.values()) if ids else {}
    return {name: rows[pk] for name, pk in ids.items() if pk in rows and rows[pk].handoff_id != name}


def list_agents(tenant_id: int, named: Collection[str]) -> list[tuple[str, str]]:
    """Return pairs of a handoff id in `named` and an agent that sent an attempt of the same lineage.

    An unreadable attempt has no source, so the named handoff alone may not show which agents send the lineage.
    """
    rows = Handoff.objects.filter(tenant=tenant_id)
    lineages = {
        name: lineage or name
        for name, lineage in rows.filter(handoff_id__in=named).values_list("handoff_id", "lineage")
    }
    wanted = Q(handoff_id__in=lineages.values()) | Q(lineage__in=lineages.values()) & ~Q(lineage="")
    # A loop of retries makes long lineages, so the database removes duplicate rows.
    first = Coalesce(NullIf("lineage", Value("")), "handoff_id")
    agents: dict[str, set[str]] = {}
    for lineage, agent in rows.filter(wanted).order_by().values_list(first, "source_agent_id").distinct():
        agents.setdefault(lineage, set()).add(agent)
    return [(name, agent) for name, lineage in lineages.items() for agent in agents.get(lineage, ())]


def take_turns(handoffs: list[PreparedHandoff]) -> None:
    """Lock the lineages that these retries continue, so that concurrent retries get different attempt numbers.

    Call inside the transaction that stores the retries, before `number`.
    """
    named = {handoff.retry_of for handoff in handoffs if handoff.retry_of}
    if named:
        tenant_id = handoffs[0].tenant_id
        rows = Handoff.objects.filter(tenant=tenant_id, handoff_id__in=named).exclude(lineage="")
        lineages = named.union(rows.values_list("lineage", flat=True))
        # `supersede` may move attempts that name one of these retries in `retry_of`, so they are locked, too.
        names = {handoff.handoff_id for handoff in handoffs if handoff.retry_of}
        _lock(_list_attempts(tenant_id, lineages | names, lineages))


class LockedRow(NamedTuple):
    """The columns of a locked handoff that show its lease.

    `claim` is the token of a lease on this handoff alone. `is_untried` is True if no worker has tried the handoff and
    its row is as ingest stored it. Such a handoff may belong to a lease on several handoffs.
    """

    claim: UUID | None
    version: int
    is_untried: bool


def lock(handoffs: Iterable[Handoff]) -> dict[UUID, LockedRow]:
    """Lock these handoffs and every attempt of their lineages that may still change; return the locked rows.

    One statement locks all rows in a fixed order, so that two workers with attempts of one lineage cannot deadlock.
    """
    rows = list(handoffs)
    wanted = {row.pk for row in rows}
    # A first attempt has no `lineage`, and its row is in `wanted` already.
    retried = {row.lineage for row in rows if row.lineage}
    for tenant_id, lineages in _group_lineages(rows).items():
        wanted |= _list_attempts(tenant_id, lineages, lineages & retried)
    return _lock(wanted)


def _list_attempts(tenant_id: int, lineages: set[str], with_first: set[str]) -> set[UUID]:
    """Return the first attempts of the lineages in `with_first`, and the attempts of `_find_later` for all lineages."""
    first: Iterable[UUID] = ()
    if with_first:
        first = Handoff.objects.filter(tenant=tenant_id, handoff_id__in=with_first).values_list("pk", flat=True)
    return {*first, *_find_later(tenant_id, lineages)}


# Every verdict needs these two statements, which the ORM builds more slowly than the database runs them.
_TABLE = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
# SQLite uses the partial index of lineages only if the condition is written as in the index: not as `lineage <> ''`.
_LATER = f"""
    SELECT id FROM "{_TABLE}" WHERE tenant_id = %s AND lineage {{among}} AND NOT (lineage = '')
    AND state <> '{State.SUPERSEDED.value}'
"""  # noqa: S608
# The condition for handoffs that no worker has tried. SQLite uses the partial index of waiting handoffs only if the
# statement repeats the condition of the index.
UNTRIED: Final = "state IN ('received', 'validating') AND NOT parked AND claim_expires_at IS NULL AND tries = 0"
_LOCK = f'SELECT id, claim, version, {UNTRIED} FROM "{_TABLE}" WHERE id {{among}} ORDER BY id {{lock}}'  # noqa: S608


def _find_later(tenant_id: int, lineages: Collection[str]) -> set[UUID]:
    """Return the attempts of these lineages, except the first attempts and superseded attempts."""
    among, values = db.among(list(lineages))
    return {db.to_uuid(pk) for (pk,) in db.fetch_rows(_LATER.format(among=among), [tenant_id, *values])}


def _lock(wanted: Iterable[UUID]) -> dict[UUID, LockedRow]:
    among, values = db.among(list(wanted))
    rows = db.fetch_rows(_LOCK.format(among=among, lock="FOR UPDATE" if db.is_postgresql() else ""), values)
    return {
        db.to_uuid(pk): LockedRow(claim and db.to_uuid(claim), version, bool(is_untried))
        for pk, claim, version, is_untried in rows
    }


def _group_lineages(handoffs: Iterable[Handoff]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for handoff in handoffs:
        found.setdefault(handoff.tenant_id, set()).add(lineage_of(handoff))
    return found


def number(handoffs: list[PreparedHandoff]) -> None:
    """Set the attempt number and the lineage of each retry among new handoffs of one tenant.

    Call inside the transaction that stores the handoffs. `retry_of` can name any attempt of the lineage.
    """
    retries = [handoff for handoff in handoffs if handoff.retry_of]
    if not retries:
        return
    tenant_id = retries[0].tenant_id
    named = Handoff.objects.filter(tenant=tenant_id, handoff_id__in={handoff.retry_of for handoff in retries})
    first = {name: lineage or name for name, lineage in named.values_list("handoff_id", "lineage")}
    last = _find_last_attempts(tenant_id, set(first.values()))
    for handoff in handoffs:
        if handoff.retry_of:
            handoff.lineage = first.get(handoff.retry_of, handoff.retry_of)
            handoff.attempt = min(last.get(handoff.lineage, 0) + 1, MOST)
        lineage = handoff.lineage or handoff.handoff_id
        first.setdefault(handoff.handoff_id, lineage)
        last[lineage] = max(last.get(lineage, 0), handoff.attempt)


def _find_last_attempts(tenant_id: int, lineages: set[str]) -> dict[str, int]:
    rows = Handoff.objects.filter(tenant=tenant_id)
    first = rows.filter(handoff_id__in=lineages, lineage="").values_list("handoff_id", "attempt")
    later = rows.filter(lineage__in=lineages).exclude(lineage="").values_list("lineage").annotate(Max("attempt"))
    return dict(first) | dict(later.order_by())


def supersede(handoffs: list[PreparedHandoff], sender: Actor) -> counts.Deltas:
    """Supersede each attempt that these retries replace, if its state allows it; return the changes of the counts.

    Call after the retries are inserted, in the same transaction.
    """
    retries = [handoff for handoff in handoffs if handoff.retry_of]
    _join(retries)
    newest = {one.lineage: Newest(*_read_newest(one)) for one in retries}
    return _supersede_older(retries[0].tenant_id, newest, sender) if retries else Counter()


def _join(retries: list[PreparedHandoff]) -> None:
    """Move attempts into the lineage of the retry that they name in `retry_of`, if the retry arrived after them.

    Attempts of another agent stay in their lineage, for the reason given in `Newest.is_foreign_to`.
    """
    retries = [handoff for handoff in retries if handoff.lineage != handoff.handoff_id]
    if not retries:
        return
    of_tenant = {"tenant": retries[0].tenant_id}
    waiting = Handoff.objects.filter(**of_tenant, lineage__in=[one.handoff_id for one in retries]).exclude(lineage="")
    names = set(waiting.order_by().values_list("lineage", flat=True).distinct())
    for one in retries:
        if one.handoff_id not in names:
            continue
        own = Handoff.objects.filter(**of_tenant, lineage=one.handoff_id, source_agent_id=one.source_agent_id)
        if own.update(lineage=one.lineage, attempt=Least(F("attempt") + one.attempt, MOST)):
            record = Remediation.objects.filter(**of_tenant, lineage=one.handoff_id)
            is_known = Remediation.objects.filter(**of_tenant, lineage=one.lineage).exists()
            record.delete() if is_known else record.update(lineage=one.lineage)


def supersede_overtaken(judged: Iterable[Handoff]) -> counts.Deltas:
    """Supersede the handoffs that a later attempt replaced while they were being judged.

    Call after the verdicts on the handoffs are stored. Return the changes of the counts.
    """
    deltas: counts.Deltas = Counter()
    for tenant_id, lineages in _group_lineages(judged).items():
        if not _find_later(tenant_id, lineages):
            continue
        # A superseded attempt replaces no other attempt: it is a failed repair, or a later attempt replaced it.
        later = Handoff.objects.filter(tenant=tenant_id, lineage__in=lineages).exclude(lineage="")
        later = later.exclude(state=State.SUPERSEDED).order_by("attempt", "id")
        newest = {row[0]: Newest(*row[1:]) for row in later.values_list("lineage", *Newest._fields)}
        deltas.update(_supersede_older(tenant_id, newest, SYSTEM))
    return deltas


class Newest(NamedTuple):
    """The columns of the newest attempt of a lineage."""

    attempt: int
    id: UUID
    handoff_id: str
    received_at: datetime
    source_agent_id: str

    def is_foreign_to(self, handoff: Handoff) -> bool:
        """Return whether this attempt came before `handoff`, and from another agent.

        When this attempt came, the server could not check whether the key that sent the attempt may speak for the
        source of `handoff`. So this attempt must not supersede `handoff`.
        """
        return self.received_at < handoff.received_at and self.source_agent_id != handoff.source_agent_id


_read_newest = attrgetter(*Newest._fields)


def _supersede_older(tenant_id: int, newest: dict[str, Newest], actor: Actor) -> counts.Deltas:
    """Supersede the attempts that are older than the attempt of their lineage in `newest`; return the count changes."""
    deltas: counts.Deltas = Counter()
    if not newest:
        return deltas
    # Each of the two conditions uses its own index, and both indexes begin with the tenant.
    wanted = Q(handoff_id__in=newest) | Q(lineage__in=newest) & ~Q(lineage="")
    rows = Handoff.objects.filter(wanted, tenant=tenant_id).exclude(state=State.SUPERSEDED)
    for handoff in rows.select_for_update().order_by("id"):
        last = newest.get(lineage_of(handoff))
        if last is None or last.is_foreign_to(handoff):
            continue
        # Retries that were stored before the first attempt can share its number or each other's number. Of attempts
        # with the same number, the attempt that was stored last is the newest.
        is_earlier = (bool(handoff.lineage), handoff.attempt, handoff.pk) < (True, last.attempt, last.id)
        if is_earlier and may_become(handoff.state, State.SUPERSEDED):
            reason = f"{last.handoff_id} took its place"
            deltas.update(transitions.change_state_uncounted(handoff, State.SUPERSEDED, actor, reason))
    return deltas


def load_records(handoffs: Sequence[Handoff]) -> dict[str, RemediationLog]:
    """Return the remediation records of the retries, by lineage. All handoffs must be of one tenant."""
    lineages = {handoff.lineage for handoff in handoffs if handoff.lineage}
    if not lineages:
        return {}
    found = Remediation.objects.filter(tenant=handoffs[0].tenant_id, lineage__in=lineages)
    return {row.lineage: _load(row) for row in found}


def load_record(handoff: Handoff) -> RemediationLog | None:
    """Return the current remediation record of the handoff's lineage, or None."""
    found = Remediation.objects.filter(tenant=handoff.tenant_id, lineage=lineage_of(handoff)).first()
    return _load(found) if found else None


def _load(row: Remediation) -> RemediationLog:
    return RemediationRecord.model_validate_json(row.content).log()


def _dump(log: RemediationLog) -> str:
    return RemediationRecord.of(log).model_dump_json()


def escalate(handoff: Handoff, reason: str) -> None:
    """Record that a person must look at the lineage, and the reason; call inside a transaction.

    A lineage without a remediation record stays unchanged.
    """
    record = load_record(handoff)
    if record is not None:
        escalated = remediation.escalate(record, reason, timezone.now())
        rows = Remediation.objects.filter(tenant=handoff.tenant_id, lineage=lineage_of(handoff))
        rows.update(content=_dump(escalated))


def settle_actions(judged: Sequence[JudgedHandoff]) -> list[JudgedHandoff]:
    """Return the judged handoffs with their recommended actions up to date.

    Another worker may have judged an attempt of the same lineage meanwhile. The action is then decided again, so that
    every attempt counts. Call inside the transaction that stores the verdicts, before they are stored.
    """
    logs: dict[tuple[int, str], RemediationLog] = {}
    lineages_of = _group_lineages(one.handoff for one in judged if _is_recorded(one))
    for tenant_id, lineages in sorted(lineages_of.items()):
        rows = Remediation.objects.filter(tenant=tenant_id, lineage__in=lineages)
        logs |= {(tenant_id, row.lineage): _load(row) for row in rows.select_for_update().order_by("lineage")}
    found = []
    for one in judged:
        key = (one.handoff.tenant_id, lineage_of(one.handoff))
        found.append(_decide_again(one, logs.get(key)))
        if found[-1].verdict.remediation:
            logs[key] = found[-1].verdict.remediation
    return found


def _is_recorded(judged: JudgedHandoff) -> bool:
    """Return whether the lineage needs a remediation record. A first attempt that was accepted needs none."""
    return bool(judged.handoff.lineage) or judged.verdict.outcome is not Outcome.ACCEPTED


def _decide_again(judged: JudgedHandoff, log: RemediationLog | None) -> JudgedHandoff:
    """Return the judged handoff with the action that follows from the attempts that are now on record."""
    verdict = judged.verdict
    decided = verdict.remediation
    if log is None or decided is None or decided.actions_taken[:-1] == log.actions_taken:
        return judged
    if verdict.outcome is Outcome.HELD:
        return replace(judged, verdict=msgspec.structs.replace(verdict, remediation=log))
    facts = remediation.facts_of(
        verdict.validation_id,
        verdict.issues,
        accepted=verdict.outcome is Outcome.ACCEPTED,
        enforced=verdict.mode is not Mode.SHADOW,
    )
    action, log = remediation.decide(
        facts, log, policy=judged.policy, now=verdict.validated_at, new_id=lambda: verdict.validation_id
    )
    return replace(judged, verdict=msgspec.structs.replace(verdict, remediation=log, recommended_action=action.value))


_REMEDIATION = db.Columns.of(Remediation, "tenant", "lineage", "content")


def store_records(judged: Iterable[JudgedHandoff]) -> None:
    """Store the remediation records of the verdicts; call inside the transaction that stores the verdicts."""
    rows = {
        (one.handoff.tenant_id, lineage_of(one.handoff)): _dump(one.verdict.remediation)
        for one in judged
        if one.verdict.remediation and _is_recorded(one)
    }
    # Every worker writes in the same order, so that two workers cannot deadlock.
    db.upsert_rows(_REMEDIATION, [[*key, content] for key, content in sorted(rows.items())], 2)


def list_attempts(handoff: Handoff, limit: int) -> list[Handoff]:
    """Return the newest attempts of the handoff's lineage, at most `limit`, oldest first."""
    first = lineage_of(handoff)
    rows = Handoff.objects.filter(tenant=handoff.tenant_id)
    later = rows.filter(lineage=first).exclude(lineage="").order_by("-attempt", "-id")
    return [*later[:limit], *rows.filter(handoff_id=first, lineage="")][:limit][::-1]


def count_attempts(handoff: Handoff) -> int:
    first = lineage_of(handoff)
    in_lineage = Q(lineage=first) & ~Q(lineage="") | Q(handoff_id=first, lineage="")
    return Handoff.objects.filter(in_lineage, tenant=handoff.tenant_id).count()


def later_attempt(handoff: Handoff) -> Handoff | None:
    """Return the newest later attempt of a superseded handoff, or None."""
    if handoff.state != State.SUPERSEDED:
        return None
    later = Handoff.objects.filter(tenant=handoff.tenant_id, lineage=lineage_of(handoff)).exclude(lineage="")
    if handoff.lineage:
        later = later.filter(Q(attempt__gt=handoff.attempt) | Q(attempt=handoff.attempt, id__gt=handoff.pk))
    # An attempt that a repair made, and that failed, has superseded no other attempt.
    return later.exclude(repaired=True, state=State.SUPERSEDED).order_by("-attempt", "-id").first()
