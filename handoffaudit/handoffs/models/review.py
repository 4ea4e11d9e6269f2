"""Reviewers at work: holds, reassignments, proposals, and dry runs of policies."""

from django.db import models

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.leases import Leased
from handoffaudit.handoffs.models.handoff import Handoff, new_id


class ReviewHold(models.Model):
    """A note that a person has a waiting handoff open. The hold expires, and other people can still decide."""

    handoff = models.OneToOneField(Handoff, on_delete=models.CASCADE, primary_key=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.person} until {self.until}"


class PassedOn(models.Model):
    """A reassignment of a waiting handoff to one person, or to nobody in particular, without a decision.

    The handoff keeps its state, and no rate counts the reassignment. The reassignment is valid while the handoff has
    this `version`. `over` says that a decision ended the reassignment.
    """

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
    """The first of the two decisions on a handoff whose type requires four eyes.

    The proposal is valid while the handoff has this `version`; `over` says that a decision ended the proposal.
    `replaced` is the proposal that this proposal replaced (decision, note, actor_kind, actor, and at as text). It is
    restored if this proposal is withdrawn.
    """

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

    @property
    def author(self) -> dict[str, str]:
        """Return the actor of the proposal in the form of the API."""
        return {"kind": self.actor_kind, "name": self.actor}


class Trial(Leased):
    """A dry run: a draft policy evaluated on past handoffs, to count how many verdicts would change.

    `draft` is the policy content as JSON. The newest handoff is judged first; `reached` is the last judged handoff.
    `flips` counts verdict changes by `before>after`; `changed` has the first changed handoffs: `{handoff, handoff_id,
    before, after, codes}`. Some judged handoffs have no verdicts to compare: `unasked` counts handoffs for which the
    LLM could not be asked, `removed` counts handoffs whose documents were removed.
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

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=models.Q(finished_at=None), name="trial_unfinished"),
            models.Index(fields=["tenant", "id"], name="trial_by_time"),
        ]

    def __str__(self) -> str:
        return f"trial of {self.kind}, {self.judged} of {self.total}"
