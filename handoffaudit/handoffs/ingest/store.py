"""Storage of submissions: the handoff, its body and its first event in one transaction."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils import timezone

from handoffaudit.accounts.keys import AgentLimit, record_refusal
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, counts, db, event_log, notify, results, tool_results, transitions
from handoffaudit.handoffs.ingest.prepare import (
    COLUMNS,
    MOST_RESULT_BYTES,
    NO_ROOM,
    PreparedHandoff,
    Receipt,
    expand,
    prepare,
    read_submission,
    refuse_agent,
)
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.verdicts import is_asked_again, verdicts_of_unread
from handoffaudit.sqlite_file import SharedWrites, write_transaction
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.tool_results import Grade

HANDOFF = db.Columns.of(Handoff, *COLUMNS)
_read_handoff_row = attrgetter(*COLUMNS)
BODY = db.Columns.of(HandoffBody, "handoff", "original", "context", "evidence", "lifted", "reason")
EVENT = db.Columns.of(Event, "handoff", "tenant", "at", "actor_kind", "actor", "from_state", "to_state", "reason")

# `may_replace` also demands that the reviewer of a declined handoff asked for a resend.
_REPLACEABLE = (State.REJECTED, State.DECLINED)

# Most submissions are stored by this one statement, with one round trip and one commit
# (`docs/decisions/0003-hot-sql.md`).
INSERT_ONE = f"""
    WITH new AS (
        INSERT INTO "{HANDOFF.table}" ({HANDOFF.name_list}) VALUES ({HANDOFF.placeholders()})
        ON CONFLICT (tenant_id, handoff_id) DO NOTHING RETURNING id
    ), body AS (
        INSERT INTO "{BODY.table}" ({BODY.name_list}) SELECT id, %s, %s, %s, %s, %s FROM new
    ), event AS (
        INSERT INTO "{EVENT.table}" ({EVENT.name_list}) SELECT id, %s, %s, %s, %s, %s, %s, %s FROM new
    )
    SELECT id FROM new
"""  # noqa: S608
INSERT_NEW = f"{HANDOFF.insert_statement('?')} ON CONFLICT (tenant_id, handoff_id) DO NOTHING"
INSERT_BODY, INSERT_EVENT = BODY.insert_statement("?"), EVENT.insert_statement("?")


@dataclass(frozen=True, slots=True)
class ExistingHandoff:
    """A stored handoff that already has the id of a submission."""

    pk: uuid.UUID
    content_hash: str
    state: str
    source: str


def is_plain(handoff: PreparedHandoff) -> bool:
    """Return whether `store_one` can store the handoff: a readable handoff that is no retry and has no tool results.

    On SQLite, several threads share one transaction, so the caller must not be in a transaction of its own.
    """
    if handoff.issues or handoff.retry_of or handoff.tool_results:
        return False
    return db.is_postgresql() or not connection.in_atomic_block


def store_one(handoff: PreparedHandoff, sender: Actor, *, wakes: bool = True, tries: int = 2) -> ExistingHandoff | None:
    """Store a plain handoff and return None. If a stored handoff already has the id, return that handoff instead.

    With `wakes`, a worker is notified.
    """
    stored = _insert_one(handoff, sender) if db.is_postgresql() else _plain_writes.add((handoff, sender))
    if stored:
        if wakes and connection.in_atomic_block:
            transaction.on_commit(notify.notify_workers)
        elif wakes:
            notify.notify_workers()
        event_log.log_received([handoff], sender)
        return None
    known = _find_existing([handoff])
    if not known and tries > 1:
        # Retention has just removed the stored handoff, so the id is free.
        return store_one(handoff, sender, wakes=wakes, tries=tries - 1)
    return known[handoff.handoff_id]


def _insert_one(handoff: PreparedHandoff, sender: Actor) -> bool:
    values = [*_read_handoff_row(handoff), *_make_body_row(handoff)[1:], *_make_event_row(handoff, sender)[1:]]
    return db.fetch_alone(INSERT_ONE, values) is not None


def _insert_plain(new: Sequence[tuple[PreparedHandoff, Actor]]) -> list[bool]:
    """Insert plain handoffs in one transaction of SQLite; return for each handoff whether its id was new."""
    connection.ensure_connection()
    opened = connection.connection
    with connection.wrap_database_errors, write_transaction(opened):
        rows = HANDOFF.adapt_rows(_read_handoff_row(handoff) for handoff, _ in new)
        found = [opened.execute(INSERT_NEW, row).rowcount == 1 for row in rows]
        stored = list(compress(new, found))
        opened.executemany(INSERT_BODY, BODY.adapt_rows(_make_body_row(handoff) for handoff, _ in stored))
        opened.executemany(INSERT_EVENT, EVENT.adapt_rows(_make_event_row(*pair) for pair in stored))
    return found


def store_many(
    handoffs: list[PreparedHandoff], sender: Actor, known: dict[str, ExistingHandoff]
) -> list[ExistingHandoff | None]:
    """Store the handoffs whose id is new, and those that replace an unreadable handoff; call inside a transaction.

    `known` has the stored handoffs by id. For each handoff, return the stored handoff that keeps the id, or None if
    the new handoff is stored. Raise `IntegrityError` if a stored handoff that is not in `known` has one of the ids.
    """
    answers: list[ExistingHandoff | None] = []
    new: list[PreparedHandoff] = []
    for handoff in handoffs:
        before = known.get(handoff.handoff_id) if handoff.named else None
        if before and str(before.pk) not in known and may_replace(before, handoff, sender.agents):
            _replace(before, handoff, new, sender)
            known[str(before.pk)], before = before, None
        answers.append(before)
        if before is None:
            new.append(handoff)
            known[handoff.handoff_id] = ExistingHandoff(
                handoff.id, handoff.content_hash, handoff.state, handoff.source_agent_id
            )
    attempts.take_turns(new)
    attempts.number(new)
    insert_handoffs(new, sender)
    unread = [(one.as_model(), one.issues) for one in new if one.issues]
    deltas = results.store_unreadable(verdicts_of_unread(unread))
    deltas.update(attempts.supersede(new, sender))
    # Workers lock in the same order, rows before counts, so that no two transactions deadlock.
    counts.apply(deltas)
    return answers


def may_replace(known: ExistingHandoff, handoff: PreparedHandoff, agents: AgentLimit) -> bool:
    """Return whether the arriving handoff replaces the stored, unreadable handoff with the same id.

    The content must differ. If a reviewer declined the stored handoff, the reviewer must have asked for a resend. The
    sender must be allowed (`agents`) to speak for the source of the stored handoff, if there is a source. The stored
    handoff is renamed to its own UUID, so no other handoff may have that UUID as its `handoff_id`.
    """
    name = str(known.pk)
    if known.source and not agents.allows(known.source):
        return False
    if known.state not in _REPLACEABLE or known.content_hash == handoff.content_hash:
        return False
    if Handoff.objects.filter(tenant=handoff.tenant_id, handoff_id=name).exists() or handoff.handoff_id == name:
        return False
    if known.state == State.DECLINED and not is_asked_again(handoff.tenant_id, known.pk):
        return False
    # The first event of an unreadable handoff rejects it. A handoff without events belongs to the same batch and is not
    # stored yet.
    first = Event.objects.filter(handoff=known.pk, from_state="").values_list("to_state", flat=True).first()
    return first in (None, State.REJECTED)


def _replace(known: ExistingHandoff, handoff: PreparedHandoff, new: list[PreparedHandoff], sender: Actor) -> None:
    """Rename the unreadable handoff to its own UUID and make the new document its next attempt.

    If another process replaces the same handoff first, the later insert raises an error, and the caller tries again.
    """
    name = str(known.pk)
    columns: dict[str, object] = {"handoff_id": name}
    if handoff.retry_of:
        # The sender names a lineage. The unreadable handoff becomes attempt 1 of that lineage, and the other attempts
        # keep their numbers.
        lineage = attempts.find_lineage(handoff.tenant_id, handoff.retry_of)
        columns |= {"lineage": lineage, "attempt": 1}
    else:
        handoff.retry_of = name
    for one in new:
        if one.id == known.pk:
            for column, value in columns.items():
                setattr(one, column, value)
    for row in Handoff.objects.select_for_update().filter(pk=known.pk, state=known.state):
        reason = f"it can't be read, and a later document has the id {row.handoff_id} now"
        transitions.record_event(row, sender, reason, **columns)


def insert_handoffs(new: list[PreparedHandoff], sender: Actor, reason: str = "") -> None:
    """Insert the row, the body and the first event of each handoff; call inside a transaction.

    `reason` is the reason in the first events of readable handoffs. If `reason` is empty, their `note` is the reason.
    """
    # Every process inserts in the same order, so that two batches with the same ids cannot deadlock.
    db.insert_rows(HANDOFF, [_read_handoff_row(one) for one in sorted(new, key=attrgetter("handoff_id"))])
    db.insert_rows(BODY, [_make_body_row(handoff) for handoff in new])
    db.insert_rows(EVENT, [_make_event_row(handoff, sender, reason) for handoff in new])
    event_log.log_received(new, sender)


def _find_existing(handoffs: list[PreparedHandoff]) -> dict[str, ExistingHandoff]:
    if not (named := [handoff for handoff in handoffs if handoff.named]):
        return {}
    condition, names = db.among([handoff.handoff_id for handoff in named])
    # A repeated submission writes nothing. Without this expression, its commit would not wait until a standby has the
    # first submission.
    confirm = f", {db.AWAIT_STANDBY}" if db.is_postgresql() else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f'SELECT handoff_id, id, content_hash, state, source_agent_id{confirm} FROM "{HANDOFF.table}"'  # noqa: S608
            f" WHERE tenant_id = %s AND handoff_id {condition}",
            [named[0].tenant_id, *names],
        )
        return {
            name: ExistingHandoff(db.to_uuid(pk), content, state, source)
            for name, pk, content, state, source, *_ in cursor.fetchall()
        }


def _make_body_row(handoff: PreparedHandoff) -> tuple[Any, ...]:
    sent = handoff.submission
    return handoff.id, sent.document, sent.context, sent.evidence, handoff.lifted, sent.envelope.reason or ""


def _make_event_row(handoff: PreparedHandoff, sender: Actor, reason: str = "") -> tuple[Any, ...]:
    reason = "it can't be read" if handoff.issues else reason or handoff.note
    start = handoff.id, handoff.tenant_id, handoff.received_at
    return *start, sender.kind.value, sender.name, "", handoff.state, reason


# The SQLSTATE of a deadlock.
_DEADLOCK = "40P01"
CLASH_TRIES = 5
_plain_writes = SharedWrites(_insert_plain, db.ONE_WRITER, OperationalError)


def accept(
    tenant: Tenant, sender: Actor, submission: Submission, grade: Grade = Grade.SAID, *, wakes: bool = True
) -> Receipt:
    """Store one submission and return its receipt. `grade` is the grade of its tool results.

    Without `wakes`, no worker is notified: the caller judges the handoff itself, or notifies the workers.
    """
    receipt = _accept(tenant, sender, submission, grade, wakes=wakes)
    counts.add_receipt_totals([receipt])
    return receipt


def _accept(tenant: Tenant, sender: Actor, submission: Submission, grade: Grade, *, wakes: bool) -> Receipt:
    (prepared,) = _refuse_names(
        tenant, sender, [prepare(tenant.pk, tenant.slug, submission, timezone.now(), sender.agents)]
    )
    if isinstance(prepared, Receipt):
        return prepared
    if is_plain(prepared):
        known = store_one(prepared, sender, wakes=wakes)
        if known is None or not may_replace(known, prepared, sender.agents):
            return _make_receipt(prepared, known)
    return _make_receipt(prepared, _store([prepared], sender, grade, wakes=wakes)[0])


class TooManyHandoffs(Exception):
    """The error for a batch with too many handoffs. A trace export in the batch can contain several handoffs."""


def accept_batch(
    tenant: Tenant,
    sender: Actor,
    sent: Sequence[bytes],
    declared_format: str | None = None,
    grade: Grade = Grade.SAID,
) -> list[Receipt]:
    """Store several submissions; return one receipt for each, in order. A faulty item does not affect the others.

    Each handoff of a trace export counts as an item. Raise `TooManyHandoffs` above `MAX_BATCH_ITEMS` items.
    """
    submissions: list[Submission] = []
    most = settings.MAX_BATCH_ITEMS
    for item in sent:
        submissions += expand(read_submission(item, declared_format))
        if len(submissions) > most:
            raise TooManyHandoffs
    return accept_many(tenant, sender, submissions, grade)


def accept_many(
    tenant: Tenant, sender: Actor, submissions: Sequence[Submission], grade: Grade = Grade.SAID
) -> list[Receipt]:
    now = timezone.now()
    room = MOST_RESULT_BYTES
    prepared: list[PreparedHandoff | Receipt] = []
    for submission in submissions:
        room -= len(submission.tool_results or b"")
        is_full = room < 0 and submission.tool_results
        prepared.append(NO_ROOM if is_full else prepare(tenant.pk, tenant.slug, submission, now, sender.agents))
    prepared = _refuse_names(tenant, sender, prepared)
    known = iter(_store([one for one in prepared if isinstance(one, PreparedHandoff)], sender, grade))
    receipts = [one if isinstance(one, Receipt) else _make_receipt(one, next(known)) for one in prepared]
    counts.add_receipt_totals(receipts, with_refusals=True)
    return receipts


def _refuse_names(
    tenant: Tenant, sender: Actor, prepared: list[PreparedHandoff | Receipt]
) -> list[PreparedHandoff | Receipt]:
    """Refuse a `handoff_id` that is the server's id of another handoff, and retries for agents of other senders.

    A sender may not continue a lineage that has a handoff of an agent for which the sender may not speak. Return all
    other entries unchanged, and record each refused agent.
    """
    named = {one.handoff_id for one in prepared if isinstance(one, PreparedHandoff) and one.named}
    for number, one in enumerate(prepared if (taken := attempts.find_by_server_id(tenant.pk, named)) else ()):
        if isinstance(one, PreparedHandoff) and (row := taken.get(one.handoff_id)):
            prepared[number] = _make_receipt(one, ExistingHandoff(row.pk, "", row.state, row.source_agent_id))
    if not sender.agents.patterns:
        return prepared
    named = {one.retry_of for one in prepared if isinstance(one, PreparedHandoff)} - {""}
    rows = attempts.list_agents(tenant.pk, named) if named else ()
    others = {name: agent for name, agent in rows if agent and not sender.agents.allows(agent)}
    kept = [
        refuse_agent(sender.agents, others[one.retry_of], "The handoff of retry_of")
        if isinstance(one, PreparedHandoff) and one.retry_of in others
        else one
        for one in prepared
    ]
    for agent in {one.refused_agent for one in kept if isinstance(one, Receipt)} - {""}:
        with db.write_turn():
            record_refusal(tenant, sender.agents, agent)
    return kept


def _store(
    handoffs: list[PreparedHandoff], sender: Actor, grade: Grade, *, wakes: bool = True
) -> list[ExistingHandoff | None]:
    sent = [one.names for one in handoffs]
    for tried in range(CLASH_TRIES):
        last = tried == CLASH_TRIES - 1
        # The previous try may have renamed and numbered handoffs.
        for one, names in zip(handoffs, sent, strict=True):
            one.names = names
        try:
            with db.write_turn(), transaction.atomic():
                # Nearly all ids are new, so the first try does not look them up.
                known = store_many(handoffs, sender, _find_existing(handoffs) if tried else {})
                _store_results(handoffs, known, sender, grade)
                if wakes and any(handoff.state == State.RECEIVED for handoff in handoffs):
                    transaction.on_commit(notify.notify_workers)
                return known
        except IntegrityError:
            # The next look-up finds the stored handoff with the id, even if another process has just stored it.
            if last:
                raise
        except OperationalError as error:
            # Retries of unknown handoffs have no common row to lock, so two batches of them can deadlock.
            if last or getattr(error.__cause__, "sqlstate", "") != _DEADLOCK:
                raise
    raise AssertionError("unreachable")


def _store_results(
    handoffs: list[PreparedHandoff], known: list[ExistingHandoff | None], sender: Actor, grade: Grade
) -> None:
    """Store the tool results of the handoffs, except of a handoff that was refused because its id was taken."""
    kept = [
        handoff.tool_results
        for handoff, before in zip(handoffs, known, strict=True)
        if before is None or before.content_hash == handoff.content_hash
    ]
    tool_results.store_all(chain.from_iterable(kept), sender.name, grade)


def _make_receipt(handoff: PreparedHandoff, known: ExistingHandoff | None) -> Receipt:
    if known is None:
        status = 422 if handoff.issues else 202
        return Receipt(status, str(handoff.id), handoff.handoff_id, handoff.state, handoff.issues)
    if known.content_hash == handoff.content_hash:
        return Receipt(200, str(known.pk), handoff.handoff_id, known.state)
    stored = f"A handoff {handoff.handoff_id!r} with other content is stored already."
    detail = f"{stored} Use a new handoff_id, or send the same content."
    return Receipt(409, str(known.pk), handoff.handoff_id, known.state, title="The id is taken", detail=detail)
