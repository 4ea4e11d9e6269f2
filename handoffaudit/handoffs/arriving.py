"""Arrivals into their rows: the handoff, its body and its first event in one transaction."""

import uuid
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.db import connection, transaction

from handoffaudit.handoffs import attempts, bulk, changing, counts, outcomes, own_events, waking
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.arrivals import Arrival
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.unread import is_asked_again, verdicts_of_unread

HANDOFF = bulk.Columns.of(
    Handoff,
    *("id", "tenant", "handoff_id", "format", "handoff_type", "source_agent_id", "target_agent_id", "trace_id"),
    *("parent_handoff_id", "retry_of", "step", "state", "received_at", "sender_timestamp", "size_bytes"),
    *("content_hash", "data_hash", "chain_length", "attempt", "lineage", "adapt", "repair", "repaired"),
)
_columns_of = attrgetter(*HANDOFF.names)
BODY = bulk.Columns.of(HandoffBody, "handoff", "original", "context", "evidence", "lifted")
EVENT = bulk.Columns.of(Event, "handoff", "tenant", "at", "actor_kind", "actor", "from_state", "to_state", "reason")

# A declined one gives way only where its reviewer asked for it to be sent again.
_GIVES_WAY = (State.REJECTED, State.DECLINED)
# One statement, one round trip, one commit: the hot path (`docs/decisions/0003-hot-sql.md`).
ONE_ARRIVAL = f"""
    WITH new AS (
        INSERT INTO "{HANDOFF.table}" ({HANDOFF.listed}) VALUES ({HANDOFF.marks()})
        ON CONFLICT (tenant_id, handoff_id) DO NOTHING RETURNING id
    ), body AS (
        INSERT INTO "{BODY.table}" ({BODY.listed}) SELECT id, %s, %s, %s, %s FROM new
    ), event AS (
        INSERT INTO "{EVENT.table}" ({EVENT.listed}) SELECT id, %s, %s, %s, %s, %s, %s, %s FROM new
    )
    SELECT id FROM new
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Known:
    """A handoff that already has the id."""

    pk: uuid.UUID
    content_hash: str
    state: str


def is_plain(arrival: Arrival) -> bool:
    """Whether nothing but its own three rows is written: it has no findings yet and takes no other's place."""
    return bulk.on_postgresql() and not arrival.issues and not arrival.handoff.retry_of


def store_one(arrival: Arrival, sender: Actor) -> Known | None:
    """Stores a plain arrival; the one known by its id where there is one."""
    values = [*_handoff_row(arrival), *_body_row(arrival)[1:], *_event_row(arrival, sender)[1:]]
    with bulk.server_cursor() as cursor:
        stored = cursor.execute(ONE_ARRIVAL, values, prepare=True, binary=True).fetchone()
    if stored:
        transaction.on_commit(waking.wake)
        own_events.received([arrival.handoff], sender)
        return None
    return _known([arrival])[arrival.handoff.handoff_id]


def store_many(arrivals: list[Arrival], sender: Actor) -> list[Known | None]:
    """Stores those whose id is new, inside the caller's transaction; for each the one known by its id, or None."""
    known = _known(arrivals)
    answers: list[Known | None] = []
    new: list[Arrival] = []
    for arrival in arrivals:
        handoff = arrival.handoff
        before = known.get(handoff.handoff_id) if arrival.named else None
        if before and str(before.pk) not in known and gives_way(before, arrival):
            _give_way(before, arrival, new, sender)
            known[str(before.pk)], before = before, None
        answers.append(before)
        if before is None:
            new.append(arrival)
            known[handoff.handoff_id] = Known(handoff.id, handoff.content_hash, handoff.state)
    attempts.take_turns(new)
    attempts.number(new)
    insert(new, sender)
    unread = [(one.handoff.as_model(), one.issues) for one in new if one.issues]
    deltas = outcomes.store_at_the_door(verdicts_of_unread(unread))
    deltas.update(attempts.supersede(new, sender))
    # Last of all, as workers do: rows first, then counts.
    counts.apply(deltas)
    return answers


def gives_way(known: Known, arrival: Arrival) -> bool:
    """Whether what has the id could not be read, nobody declined it for good, and what arrives is other content: the id
    is that of what it was mended to, and the product's own, which it goes by from then on, is nobody else's."""
    handoff, name = arrival.handoff, str(known.pk)
    if known.state not in _GIVES_WAY or known.content_hash == handoff.content_hash:
        return False
    if Handoff.objects.filter(tenant=handoff.tenant_id, handoff_id=name).exists() or handoff.handoff_id == name:
        return False
    if known.state == State.DECLINED and not is_asked_again(handoff.tenant_id, known.pk):
        return False
    # What can't be read is rejected with its first event; what is not stored yet is of the same batch.
    first = Event.objects.filter(handoff=known.pk, from_state="").values_list("to_state", flat=True).first()
    return first in (None, State.REJECTED)


def _give_way(known: Known, arrival: Arrival, new: list[Arrival], sender: Actor) -> None:
    """It goes by the product's id from here on, and what arrives is the next attempt at it. Where another process was
    first, the insert clashes and is tried again."""
    name = str(known.pk)
    columns: dict[str, object] = {"handoff_id": name}
    if arrival.handoff.retry_of:
        # An attempt at the same, whose number no other one has to follow.
        lineage = attempts.lineage_named(arrival.handoff.tenant_id, arrival.handoff.retry_of)
        columns |= {"lineage": lineage, "attempt": 1}
    else:
        arrival.handoff.retry_of = name
    for one in new:
        if one.handoff.id == known.pk:
            for column, value in columns.items():
                setattr(one.handoff, column, value)
    for row in Handoff.objects.select_for_update().filter(pk=known.pk, state=known.state):
        reason = f"it can't be read: {row.handoff_id} is the id of what was sent after it"
        changing.stay(row, sender, reason, **columns)


def insert(new: list[Arrival], sender: Actor, reason: str = "") -> None:
    """Three rows each, inside the caller's transaction: the handoff, its body, its first event with that reason."""
    # In one order everywhere, so that two batches with the same ids never wait for each other in a circle.
    bulk.insert(HANDOFF, [_handoff_row(one) for one in sorted(new, key=lambda one: one.handoff.handoff_id)])
    bulk.insert(BODY, [_body_row(arrival) for arrival in new])
    bulk.insert(EVENT, [_event_row(arrival, sender, reason) for arrival in new])
    own_events.received([one.handoff for one in new], sender)


def _known(arrivals: list[Arrival]) -> dict[str, Known]:
    named = [arrival.handoff for arrival in arrivals if arrival.named]
    if not named:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f'SELECT handoff_id, id, content_hash, state FROM "{HANDOFF.table}"'  # noqa: S608
            f" WHERE tenant_id = %s AND handoff_id IN ({', '.join(['%s'] * len(named))})",
            [named[0].tenant_id, *(handoff.handoff_id for handoff in named)],
        )
        return {name: Known(uuid.UUID(str(pk)), content, state) for name, pk, content, state in cursor.fetchall()}


def _handoff_row(arrival: Arrival) -> tuple[Any, ...]:
    row: tuple[Any, ...] = _columns_of(arrival.handoff)
    return row


def _body_row(arrival: Arrival) -> tuple[Any, ...]:
    sent = arrival.submission
    return arrival.handoff.id, sent.document, sent.context, sent.evidence, arrival.lifted


def _event_row(arrival: Arrival, sender: Actor, reason: str = "") -> tuple[Any, ...]:
    reason = "it can't be read" if arrival.issues else reason
    row = arrival.handoff
    return row.id, row.tenant_id, row.received_at, sender.kind.value, sender.name, "", row.state, reason
