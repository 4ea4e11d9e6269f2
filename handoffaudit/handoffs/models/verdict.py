"""Verdicts, findings and events of handoffs."""

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models.handoff import Handoff, new_id


class Verdict(models.Model):
    """The result of one validation run. Rows are only added, never changed.

    `content` is the verdict as the API shows it.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, related_name="verdicts")
    outcome = models.CharField(max_length=10)
    policy_version = models.PositiveIntegerField()
    validated_at = models.DateTimeField()
    # Text and not jsonb, because a NUL character of a sender is valid JSON, but PostgreSQL's jsonb refuses it.
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
    """A change of state, or a remark that keeps the state. Rows are only added, never changed."""

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
            # People make few of the changes. The indexes cover decisions only, so that ingest and judging add no
            # entries.
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
        ]

    def __str__(self) -> str:
        return f"{self.from_state} → {self.to_state}"
