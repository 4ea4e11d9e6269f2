"""Models that limit and record the removal of handoffs."""

from django.db import models

from handoffaudit.accounts.models import Tenant


class HoldScope(models.TextChoices):
    HANDOFF = "handoff"
    TRACE = "trace"
    TENANT = "tenant"


class LegalHold(models.Model):
    """An order to keep data: nothing that an active hold names is removed by any path.

    `key` is the primary key of the handoff or the id of the trace, and empty for the whole tenant. `name` is the
    `handoff_id` of the handoff. A lifted hold stays as a record.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    scope = models.CharField(max_length=10, choices=HoldScope.choices)
    key = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=200, blank=True)
    reason = models.TextField()
    placed_by = models.CharField(max_length=200)
    placed_at = models.DateTimeField()
    lifted_by = models.CharField(max_length=200, blank=True)
    lifted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "scope", "key"], condition=models.Q(lifted_at=None), name="one_active_hold"
            )
        ]
        indexes = [models.Index(fields=["tenant", "id"], name="legal_hold_by_tenant")]

    def __str__(self) -> str:
        return f"hold on {self.scope} {self.key}".strip()


class RemovedHandoffs(models.Model):
    """The time up to which retention may have removed handoffs of a tenant. Counts of earlier handoffs stay as stored.

    `handoffaudit recount` does not compare these counts, because the handoffs that they count are gone.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, primary_key=True)
    before = models.DateTimeField()

    def __str__(self) -> str:
        return f"handoffs before {self.before:%Y-%m-%d}"
