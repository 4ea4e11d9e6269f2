"""Models of handoffs, their documents, verdicts, findings and events."""

import secrets
import time
import uuid
from datetime import UTC, datetime, timedelta

import uuid_utils.compat
from django.db import models
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.leases import Leased
from handoffaudit.validation.formats import UNRECOGNISED_FORMAT
from handoffaudit.validation.json_text import JSON_PARSE
from handoffaudit.validation.layers import semantic


def new_id() -> uuid.UUID:
    """Return a new UUIDv7. Later rows get greater ids, so rows of the same time are stored next to each other."""
    made: uuid.UUID = uuid_utils.compat.uuid7()
    return made


def new_id_text() -> str:
    """Return a new UUIDv7 as text, in a tenth of the time that a UUID object and its text take."""
    return str(uuid_utils.uuid7())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 40 bits of an id hold the time of arrival in microseconds. They cover 12 days, more than the seven days that a handoff
# may be late.
_ARRIVAL_BITS, _RANDOM_BITS = 40, 22


def id_at(moment: datetime) -> uuid.UUID:
    """Return a new UUIDv7 of an earlier moment, by which lists and traces place a handoff that was sent late.

    Ids of the same moment are in the order in which they were made. The bits after the millisecond hold its fraction,
    as in method 3 of RFC 9562, then the time of arrival and random bits.
    """
    milliseconds, rest = divmod((moment - _EPOCH) // timedelta(microseconds=1), 1000)
    arrived = time.time_ns() // 1000 % (1 << _ARRIVAL_BITS)
    unique = arrived << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | (rest * 4096 // 1000) << 64 | 0b10 << 62 | unique)


class State(models.TextChoices):
    RECEIVED = "received"
    VALIDATING = "validating"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    HELD = "held"
    APPROVED = "approved"
    DECLINED = "declined"
    SUPERSEDED = "superseded"


WAITING_STATES = (State.RECEIVED, State.VALIDATING)

# A document with one of these rule codes has no known format.
_UNREADABLE_CODES = frozenset({JSON_PARSE.code, UNRECOGNISED_FORMAT.code})


class Handoff(Leased):
    """A handoff with the fields that lists, filters and the queue need.

    The row is small; the documents are in `HandoffBody`.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff_id = models.CharField(max_length=200)
    format = models.CharField(max_length=20)
    handoff_type = models.CharField(max_length=200)
    source_agent_id = models.CharField(max_length=200)
    target_agent_id = models.CharField(max_length=200)
    trace_id = models.CharField(max_length=200, blank=True)
    parent_handoff_id = models.CharField(max_length=200, blank=True, default="", db_default="")
    retry_of = models.CharField(max_length=200, blank=True, default="", db_default="")
    # The `handoff_id` of the first attempt; empty on the first attempt itself.
    lineage = models.CharField(max_length=200, blank=True, default="", db_default="")
    attempt = models.PositiveSmallIntegerField(default=1, db_default=1)
    # Whether the sender asked to convert a document of an older version.
    adapt = models.BooleanField(default=False, db_default=False)
    # Whether the sender asked to repair the document if the handoff is rejected.
    repair = models.BooleanField(default=False, db_default=False)
    # Whether a repair made this attempt from an earlier attempt.
    repaired = models.BooleanField(default=False, db_default=False)
    step = models.IntegerField(null=True)
    # Whether the chain is derived: the format has a place for a chain, but the document declares no chain.
    derives_chain = models.BooleanField(default=False, db_default=False)
    state = models.CharField(max_length=10, choices=State.choices)
    # The version increases with each change, so that a decision on an outdated page is detected.
    version = models.PositiveIntegerField(default=1, db_default=1)
    received_at = models.DateTimeField()
    judged_at = models.DateTimeField(null=True)
    sender_timestamp = models.DateTimeField(null=True)
    # The time of the handoff, sent beside the document by a sender that sends late; null without a usable time.
    sent_at = models.DateTimeField(null=True)
    size_bytes = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64)
    data_hash = models.CharField(max_length=64)

    verdict = models.UUIDField(null=True)
    score = models.FloatField(null=True)
    codes = models.JSONField(default=list, db_default=[])
    token_count = models.PositiveIntegerField(null=True)
    chain_length = models.PositiveIntegerField(default=0, db_default=0)
    warnings = models.BooleanField(default=False, db_default=False)
    # The state that the handoff would have without shadow mode: rejected or held; empty if the state would be the same.
    would_decide = models.CharField(max_length=10, blank=True, default="", db_default="")
    approvable = models.BooleanField(default=True, db_default=True)
    user_approved = models.BooleanField(default=False, db_default=False)
    review_due_at = models.DateTimeField(null=True)
    # Whether a finding is critical, or retries and repair did not help. Only rejected handoffs then wait for a person.
    escalated = models.BooleanField(default=False, db_default=False)
    # Whether the LLM check that the type demands is missing, and the verdict did not reject the handoff.
    unverified = models.BooleanField(default=False, db_default=False)
    # Whether the handoff was accepted or approved unverified, and the later LLM check would have rejected it.
    flagged = models.BooleanField(default=False, db_default=False)
    # Whether a hook event handed the task out, and the end of the task has not been reported.
    open = models.BooleanField(default=False, db_default=False)

    tries = models.PositiveSmallIntegerField(default=0, db_default=0)
    parked = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            # On PostgreSQL, migration 0016 makes this a unique index with the operator class `varchar_pattern_ops`,
            # which finds the beginning of a text in every collation. If the class were declared here, Django would
            # change the table on SQLite, too.
            models.UniqueConstraint(fields=["tenant", "handoff_id"], name="handoff_id_once_per_tenant"),
            models.CheckConstraint(condition=models.Q(state__in=State.values), name="state_is_known"),
        ]
        indexes = [
            models.Index(fields=["tenant", "id"], name="handoff_by_time"),
            models.Index(fields=["tenant", "state", "id"], name="handoff_by_state"),
            models.Index(fields=["tenant", "handoff_type", "id"], name="handoff_by_type"),
            models.Index(fields=["tenant", "source_agent_id", "id"], name="handoff_by_source"),
            models.Index(fields=["tenant", "target_agent_id", "id"], name="handoff_by_target"),
            # The operator class finds the beginning of a text in every collation of PostgreSQL.
            models.Index(
                fields=["tenant", "trace_id", "id"],
                name="handoff_by_trace",
                opclasses=["int8_ops", "varchar_pattern_ops", "uuid_ops"],
            ),
            models.Index(
                fields=["claim_expires_at", "id"],
                condition=models.Q(state__in=("received", "validating"), parked=False),
                name="handoff_waiting",
            ),
            models.Index(
                fields=["tenant", "lineage", "attempt"], condition=~models.Q(lineage=""), name="handoff_by_lineage"
            ),
            # If this index lacked the state, SQLite would choose `handoff_by_state` instead.
            models.Index(
                fields=["tenant", "state", "id"], condition=models.Q(escalated=True), name="handoff_escalated"
            ),
            # These partial indexes find rare conditions without a scan. They have few rows, and ingest adds none.
            models.Index(fields=["tenant", "review_due_at"], condition=models.Q(state="held"), name="handoff_due"),
            # This index finds the newest overdue handoffs and, on SQLite, their number.
            models.Index(
                fields=["tenant", "state", "id", "review_due_at"],
                condition=models.Q(state="held"),
                name="handoff_held",
            ),
            models.Index(fields=["tenant", "id"], condition=~models.Q(would_decide=""), name="handoff_shadowed"),
            models.Index(fields=["tenant", "id"], condition=models.Q(warnings=True), name="handoff_warned"),
            models.Index(fields=["tenant", "id"], condition=models.Q(parked=True), name="handoff_parked"),
            models.Index(fields=["tenant", "id"], condition=models.Q(unverified=True), name="handoff_unverified"),
            models.Index(fields=["tenant", "id"], condition=models.Q(flagged=True), name="handoff_flagged"),
            models.Index(fields=["tenant", "id"], condition=models.Q(open=True), name="handoff_open"),
            # Alert rules count handoffs by receipt. Only handoffs with `sent_at` need this index, because the primary
            # key of any other handoff has the time of its receipt.
            models.Index(
                fields=["tenant", "received_at"], condition=models.Q(sent_at__isnull=False), name="handoff_sent"
            ),
            # The review page shows decided handoffs as precedents: the newest of the type, and the newest of the route.
            models.Index(
                fields=["tenant", "handoff_type", "id"],
                condition=models.Q(state__in=("approved", "declined")),
                name="handoff_decided_type",
            ),
            models.Index(
                fields=["tenant", "source_agent_id", "target_agent_id", "id"],
                condition=models.Q(state__in=("approved", "declined")),
                name="handoff_decided_pair",
            ),
            # The comparison with an accepted handoff of the same route and type finds the newest such handoff.
            models.Index(
                fields=["tenant", "source_agent_id", "target_agent_id", "handoff_type", "id"],
                condition=models.Q(state="accepted"),
                name="handoff_accepted_route",
            ),
            models.Index(fields=["tenant", "score", "id"], condition=models.Q(score__lt=1), name="handoff_by_score"),
        ]

    def __str__(self) -> str:
        return f"{self.handoff_id}: {self.source_agent_id} → {self.target_agent_id}"

    @property
    def at(self) -> datetime:
        """Return the time by which lists, traces and rates place the handoff. The primary key has the same time."""
        return self.sent_at or self.received_at

    @property
    def flags(self) -> dict[str, bool]:
        """Return the flags of the handoff by their names in the API."""
        return {
            "warnings": self.warnings,
            "shadowed": bool(self.would_decide),
            "overdue": self.overdue,
            "parked": self.parked,
            "escalated": self.escalated and self.state == State.REJECTED,
            "unverified": self.unverified,
            "flagged": self.flagged,
            "open": self.open,
        }

    @property
    def is_unreadable(self) -> bool:
        """Return whether the document has no known format, so that no field is known and nothing was checked."""
        is_named = bool(self.handoff_type or self.source_agent_id or self.target_agent_id)
        is_none = not self.format or not _UNREADABLE_CODES.isdisjoint(self.codes)
        return not is_named and is_none and self.verdict is not None

    @property
    def may_be_approved(self) -> bool:
        return self.approvable and not self.is_unreadable

    @property
    def is_llm_check_missed(self) -> bool:
        """Return whether the LLM check is missing because the LLM failed.

        Return False if the key is missing, because a missing key concerns all handoffs alike.
        """
        return self.unverified and semantic.UNAVAILABLE.code in self.codes

    @property
    def overdue(self) -> bool:
        """Return whether the handoff has been held for longer than the limit of its type."""
        return self.state == State.HELD and self.review_due_at is not None and self.review_due_at < timezone.now()


class HandoffBody(models.Model):
    """The documents of a handoff as they arrived, byte for byte, except for erased values.

    `context` and `evidence` are JSON. `lifted` is the judged document, if it is not the document that arrived: a
    document converted from an older version on request, or the handoff file in a report. `reason` is the sender's
    reason for the handoff, sent beside the document.
    """

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="body"
    )
    original = models.BinaryField()
    context = models.BinaryField(null=True)
    evidence = models.BinaryField(null=True)
    lifted = models.BinaryField(null=True)
    reason = models.TextField(blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"the documents of {self.handoff_id}"


class RemovedDocument(models.Model):
    """A record of documents that retention removed.

    `days` is the retention period. `sha256` is the hash of the document as it arrived.
    """

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="removed_document"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    at = models.DateTimeField()
    days = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"the removed documents of {self.handoff_id}"


class Remediation(models.Model):
    """The remediation record of a lineage, with the recommended action after each attempt.

    `content` is the record as JSON. `lineage` is the `handoff_id` of the first attempt.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    lineage = models.CharField(max_length=200)
    content = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "lineage"], name="one_remediation_per_lineage")]

    def __str__(self) -> str:
        return f"remediation of {self.lineage}"


class Verdict(models.Model):
    """The result of one validation run. Rows are added, and only an erasure changes them.

    `content` is the verdict as the API shows it.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, related_name="verdicts")
    outcome = models.CharField(max_length=10)
    policy_version = models.PositiveIntegerField()
    validated_at = models.DateTimeField()
    # The column is not jsonb, because PostgreSQL's jsonb refuses the NUL character, which is valid in JSON.
    content = models.TextField()

    def __str__(self) -> str:
        return f"{self.outcome} {self.handoff_id}"


class Finding(models.Model):
    """A finding with severity warning or above in the current verdict of a handoff.

    The table lets a filter by rule code use an index instead of scanning verdicts.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, related_name="findings")
    code = models.CharField(max_length=100)
    severity = models.CharField(max_length=10)
    layer = models.CharField(max_length=20)
    field_path = models.CharField(max_length=500)

    class Meta:
        indexes = [models.Index(fields=["tenant", "code", "handoff"], name="finding_by_code")]

    def __str__(self) -> str:
        return f"{self.code} at {self.field_path}"


class ActorKind(models.TextChoices):
    PERSON = "person"
    KEY = "key"
    SYSTEM = "system"


class Event(models.Model):
    """A change of state, or a remark without a change of state. Rows are added, and only an erasure changes them."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, related_name="events")
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=10, choices=ActorKind.choices)
    actor = models.CharField(max_length=200)
    from_state = models.CharField(max_length=10, blank=True)
    to_state = models.CharField(max_length=10)
    reason = models.TextField(blank=True)

    class Meta:
        indexes = [
            # These indexes cover only decisions, which are few. Ingest and judging add no entries.
            models.Index(
                fields=["tenant", "at"],
                condition=models.Q(to_state__in=("approved", "declined")),
                name="event_decision",
            ),
            models.Index(
                fields=["tenant", "actor"],
                condition=models.Q(to_state__in=("approved", "declined")),
                name="event_decider",
            ),
            # Decisions that were undone are fewer still.
            models.Index(
                fields=["handoff"],
                condition=models.Q(from_state__in=("approved", "declined"), to_state__in=("held", "rejected")),
                name="event_undone",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.from_state} → {self.to_state}"

    @property
    def author(self) -> dict[str, str]:
        """Return the actor of the event in the form of the API."""
        return {"kind": self.actor_kind, "name": self.actor}


class RemovedHandoffs(models.Model):
    """The time up to which retention may have removed handoffs of a tenant. Counts of earlier handoffs stay as stored.

    `handoffaudit recount` does not compare these counts, because the handoffs that they count are gone.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, primary_key=True)
    before = models.DateTimeField()

    def __str__(self) -> str:
        return f"handoffs before {self.before:%Y-%m-%d}"
