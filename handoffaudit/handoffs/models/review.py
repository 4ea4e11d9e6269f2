"""Reviewers at work: holds, reassignments, proposals, and dry runs of policies."""

from django.db import models

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models.handoff import Handoff, new_id


class ReviewHold(models.Model):
    """Who is looking at a waiting handoff. Soft: it frees itself and stops nobody from deciding."""

    handoff = models.OneToOneField(Handoff, on_delete=models.CASCADE, primary_key=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.person} until {self.until}"


class PassedOn(models.Model):
    """A waiting handoff that somebody took out of the queue without judging it: to one person, or to nobody in
    particular. Its state stays, and no rate counts it. It holds while the handoff is at `version`; `over`: a decision
    ended it."""

    handoff = models.OneToOneField(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    by = models.CharField(max_length=200)
    to = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True)
    note = models.TextField(blank=True)
    version = models.PositiveIntegerField()
    over = models.BooleanField(default=False, db_default=False)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "handoff"], condition=models.Q(over=False), name="passed_on_by_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.handoff_id} passed on by {self.by}"


class Proposal(models.Model):
    """The first of the two decisions that a type with four eyes needs. It holds while the handoff is at `version`;
    `over`: a decision ended it. `replaced`: the proposal that it took the place of (decision, note, actor_kind, actor,
    at as text), for who takes it back."""

    handoff = models.OneToOneField(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    decision = models.CharField(max_length=10)
    note = models.TextField(blank=True)
    actor_kind = models.CharField(max_length=10)
    actor = models.CharField(max_length=200)
    version = models.PositiveIntegerField()
    over = models.BooleanField(default=False, db_default=False)
    at = models.DateTimeField()
    replaced = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "handoff"], condition=models.Q(over=False), name="proposal_by_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.decision} of {self.handoff_id} by {self.actor}"


class Trial(models.Model):
    """A draft of a policy tried on handoffs that were judged before: how many verdicts would change.

    `draft` is the plain content of its kind, as JSON. `reached` is the handoff judged last; the newest is judged first.
    `flips` counts by `before>after`; `changed` has the first ones: `{handoff, handoff_id, before, after, codes}`.
    `unasked`: of those judged, how many a model could not be asked about, where the trial asks one; `removed`: how
    many have no documents any more, and count as neither.
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
    unasked = models.PositiveIntegerField(default=0)
    removed = models.PositiveIntegerField(default=0, db_default=0)
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
