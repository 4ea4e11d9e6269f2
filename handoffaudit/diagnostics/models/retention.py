"""The model of runs that remove old data."""

import uuid

from django.db import models

from handoffaudit.accounts.models import Tenant

NOWHERE = uuid.UUID(int=0)


class RetentionRun(models.Model):
    """The newest run over one kind of data of a tenant.

    The run removes what is older than `before`, which was `days` days before the run began. It has removed `number`
    items so far, and has come as far as `reached`; any process can continue an unfinished run. The columns from
    `removed` on are about all runs: how much they removed, and the last run that found something.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    kind = models.CharField(max_length=20)
    days = models.PositiveIntegerField()
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
