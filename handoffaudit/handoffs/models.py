"""Handoffs and what became of them.

The rows that arrive by the thousand carry no foreign-key constraints: each check would cost a lookup and a row lock on
the tenant, and history must neither block nor cascade. One transaction writes what belongs together instead
(`docs/decisions/0004-rows-without-foreign-keys.md`).
"""

import uuid

import uuid_utils.compat
from django.db import models
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant


def new_id() -> uuid.UUID:
    """A UUIDv7: later rows have greater ids and land beside each other."""
    made: uuid.UUID = uuid_utils.compat.uuid7()
    return made


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


class Handoff(models.Model):
    """One handoff, lean: what lists, filters and the queue need. Its documents stand in `HandoffBody`."""

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
    # The handoff_id of the first attempt, on all later ones; empty on the first.
    lineage = models.CharField(max_length=200, blank=True, default="", db_default="")
    attempt = models.PositiveSmallIntegerField(default=1, db_default=1)
    # What the sender asked for: to lift an older version, to repair what is rejected.
    adapt = models.BooleanField(default=False, db_default=False)
    repair = models.BooleanField(default=False, db_default=False)
    # Made here by repair, from the attempt before it.
    repaired = models.BooleanField(default=False, db_default=False)
    step = models.IntegerField(null=True)
    state = models.CharField(max_length=10, choices=State.choices)
    # Counts the changes of state, so that a decision made on an old view is told.
    version = models.PositiveIntegerField(default=1, db_default=1)
    received_at = models.DateTimeField()
    judged_at = models.DateTimeField(null=True)
    sender_timestamp = models.DateTimeField(null=True)
    size_bytes = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64)
    data_hash = models.CharField(max_length=64)

    verdict = models.UUIDField(null=True)
    score = models.FloatField(null=True)
    codes = models.JSONField(default=list, db_default=[])
    token_count = models.PositiveIntegerField(null=True)
    chain_length = models.PositiveIntegerField(default=0, db_default=0)
    warnings = models.BooleanField(default=False, db_default=False)
    # Set where shadow mode let pass what would have been rejected or held.
    would_decide = models.CharField(max_length=10, blank=True, default="", db_default="")
    approvable = models.BooleanField(default=True, db_default=True)
    user_approved = models.BooleanField(default=False, db_default=False)
    review_due_at = models.DateTimeField(null=True)
    # Whoever sends it can't mend it any more: shown first to those who review.
    escalated = models.BooleanField(default=False, db_default=False)

    claim = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0, db_default=0)
    parked = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "handoff_id"], name="handoff_id_once_per_tenant"),
            models.CheckConstraint(condition=models.Q(state__in=State.values), name="state_is_known"),
        ]
        indexes = [
            models.Index(fields=["tenant", "id"], name="handoff_by_time"),
            models.Index(fields=["tenant", "state", "id"], name="handoff_by_state"),
            models.Index(fields=["tenant", "handoff_type", "id"], name="handoff_by_type"),
            models.Index(fields=["tenant", "source_agent_id", "id"], name="handoff_by_source"),
            models.Index(fields=["tenant", "target_agent_id", "id"], name="handoff_by_target"),
            models.Index(fields=["tenant", "trace_id", "id"], name="handoff_by_trace"),
            models.Index(
                fields=["claim_expires_at", "id"],
                condition=models.Q(state__in=("received", "validating"), parked=False),
                name="handoff_waiting",
            ),
            models.Index(
                fields=["tenant", "lineage", "attempt"], condition=~models.Q(lineage=""), name="handoff_by_lineage"
            ),
            models.Index(
                fields=["tenant", "id"],
                condition=models.Q(escalated=True, state="rejected"),
                name="handoff_escalated",
            ),
            # Few rows each, and none of them when a handoff arrives: what is rare must be found without a scan.
            models.Index(fields=["tenant", "review_due_at"], condition=models.Q(state="held"), name="handoff_due"),
            models.Index(fields=["tenant", "id"], condition=~models.Q(would_decide=""), name="handoff_shadowed"),
            models.Index(fields=["tenant", "id"], condition=models.Q(warnings=True), name="handoff_warned"),
            models.Index(fields=["tenant", "id"], condition=models.Q(parked=True), name="handoff_parked"),
            models.Index(fields=["tenant", "score", "id"], condition=models.Q(score__lt=1), name="handoff_by_score"),
        ]

    def __str__(self) -> str:
        return f"{self.handoff_id}: {self.source_agent_id} → {self.target_agent_id}"

    @property
    def overdue(self) -> bool:
        """Held for longer than its type's limit."""
        return self.state == State.HELD and self.review_due_at is not None and self.review_due_at < timezone.now()


class HandoffBody(models.Model):
    """The documents of a handoff as they arrived, byte for byte; `context` and `evidence` are JSON. `lifted` is the
    document in the current version, where an older one came and the sender asked to have it lifted."""

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="body"
    )
    original = models.BinaryField()
    context = models.BinaryField(null=True)
    evidence = models.BinaryField(null=True)
    lifted = models.BinaryField(null=True)

    def __str__(self) -> str:
        return f"the documents of {self.handoff_id}"


class Remediation(models.Model):
    """What was asked of a lineage of attempts so far; `content` is the core's record. `lineage` is the first attempt's
    handoff_id."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    lineage = models.CharField(max_length=200)
    content = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "lineage"], name="one_remediation_per_lineage")]

    def __str__(self) -> str:
        return f"remediation of {self.lineage}"


class Verdict(models.Model):
    """One validation run. Only added, never changed. `content` is the verdict as the API shows it."""

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, related_name="verdicts")
    outcome = models.CharField(max_length=10)
    policy_version = models.PositiveIntegerField()
    validated_at = models.DateTimeField()
    # Text and not jsonb: a sender's NUL character is valid JSON and jsonb refuses it.
    content = models.TextField()

    def __str__(self) -> str:
        return f"{self.outcome} {self.handoff_id}"


class Finding(models.Model):
    """One issue of warning and up of the verdict in force, so that "by code" is an index and not a scan."""

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
    """One change of state. Only added, never changed."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, related_name="events")
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=10, choices=ActorKind.choices)
    actor = models.CharField(max_length=200)
    from_state = models.CharField(max_length=10, blank=True)
    to_state = models.CharField(max_length=10)
    reason = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"{self.from_state} → {self.to_state}"


class HourlyCount(models.Model):
    """How many handoffs received in an hour stand in a state now, by type and pair; `code` empty: all of them,
    else those with a finding of that code."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    hour = models.DateTimeField()
    handoff_type = models.CharField(max_length=200)
    source_agent_id = models.CharField(max_length=200)
    target_agent_id = models.CharField(max_length=200)
    state = models.CharField(max_length=10)
    code = models.CharField(max_length=100, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "hour", "handoff_type", "source_agent_id", "target_agent_id", "state", "code"],
                name="one_hourly_count",
            )
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.state} {self.number}"


class HourlyTotal(models.Model):
    """The same over all types and agents: few rows, so that pages about all of them read few."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    hour = models.DateTimeField()
    state = models.CharField(max_length=10)
    code = models.CharField(max_length=100, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "hour", "state", "code"], name="one_hourly_total")]
        # The sum over all hours of one state stands on every page.
        indexes = [
            models.Index(fields=["tenant", "state", "hour"], condition=models.Q(code=""), name="hourly_total_by_state")
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.state} {self.number}"


class ReviewHold(models.Model):
    """Who is looking at a waiting handoff. Soft: it frees itself and stops nobody from deciding."""

    handoff = models.OneToOneField(Handoff, on_delete=models.CASCADE, primary_key=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.person} until {self.until}"


class Trial(models.Model):
    """A draft of a policy tried on handoffs that were judged before: how many verdicts would change.

    `draft` is the plain content of its kind, as JSON. `reached` is the handoff judged last; the newest is judged first.
    `flips` counts by `before>after`; `changed` has the first ones: `{handoff, handoff_id, before, after, codes}`.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    kind = models.CharField(max_length=20)
    draft = models.TextField()
    base_version = models.PositiveIntegerField()
    handoff_types = models.JSONField(default=list)
    most = models.PositiveIntegerField()
    since = models.DateTimeField(null=True)
    started_by = models.CharField(max_length=200)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)
    total = models.PositiveIntegerField(default=0)
    judged = models.PositiveIntegerField(default=0)
    reached = models.UUIDField(null=True)
    flips = models.JSONField(default=dict)
    changed = models.JSONField(default=list)
    claim = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=models.Q(finished_at=None), name="trial_unfinished"),
            models.Index(fields=["tenant", "id"], name="trial_by_time"),
        ]

    def __str__(self) -> str:
        return f"trial of {self.kind}, {self.judged} of {self.total}"
