"""What was removed because it was old enough."""

import uuid

from django.db import models

from handoffaudit.accounts.models import Tenant

NOWHERE = uuid.UUID(int=0)


class RetentionRun(models.Model):
    """The newest run over one kind of data of a tenant: what is older than `before` goes, which was `days` before it
    began. It has removed `number` so far and has come as far as `reached`; unfinished, it goes on in whichever process
    takes it up.

    The rest is about all runs: how much they removed, and the last one that found something.
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
