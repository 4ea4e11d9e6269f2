"""Models of the removal of old data, and of the erasure of values."""

import uuid

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import new_id

NOWHERE = uuid.UUID(int=0)


class RetentionRun(models.Model):
    """The newest retention run over one kind of data of a tenant.

    `days` and `types` are the rule of the run. `before` belongs to its shortest term: the run removes nothing newer.
    The run has removed `number` items so far, up to the key `reached`; any process can continue an unfinished run.
    `removed` counts the items that all runs have removed. The columns after it describe the last run that removed any
    data.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    kind = models.CharField(max_length=20)
    days = models.PositiveIntegerField(null=True)
    types = models.JSONField(default=dict, db_default={})
    before = models.DateTimeField()
    started_at = models.DateTimeField()
    reached = models.UUIDField(default=NOWHERE)
    number = models.PositiveBigIntegerField(default=0)
    finished_at = models.DateTimeField(null=True)
    removed = models.PositiveBigIntegerField(default=0)
    removed_at = models.DateTimeField(null=True)
    removed_before = models.DateTimeField(null=True)
    removed_days = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "kind"], name="one_retention_run_per_kind")]

    def __str__(self) -> str:
        return f"{self.kind} before {self.before:%Y-%m-%d}: {self.number}"


class ErasureState(models.TextChoices):
    COUNTING = "counting"
    COUNTED = "counted"
    ERASING = "erasing"
    DONE = "done"
    CANCELLED = "cancelled"


class Erasure(models.Model):
    """The erasure of one value, such as the e-mail of a person: first counted, then erased after a confirmation.

    `value` is empty after the end. `digest` identifies the value later: it is an HMAC of the value with the secret key.
    `step` is the place of the kind of row in the order of work, and `reached` the last row of that kind. `found`,
    `erased` and `held` count rows by kind; `held` rows are kept by a legal hold.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    value = models.CharField(max_length=200, blank=True)
    digest = models.CharField(max_length=64)
    reason = models.TextField()
    state = models.CharField(max_length=10, choices=ErasureState.choices, default=ErasureState.COUNTING)
    step = models.PositiveSmallIntegerField(default=0)
    reached = models.CharField(max_length=40, blank=True)
    found = models.JSONField(default=dict)
    erased = models.JSONField(default=dict)
    held = models.JSONField(default=dict)
    requested_by = models.CharField(max_length=200)
    requested_at = models.DateTimeField()
    counted_at = models.DateTimeField(null=True)
    confirmed_by = models.CharField(max_length=200, blank=True)
    confirmed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "id"], name="erasure_by_tenant"),
            models.Index(fields=["id"], condition=models.Q(finished_at=None), name="erasure_unfinished"),
        ]

    def __str__(self) -> str:
        return f"erasure {self.digest[:12]}: {self.state}"
