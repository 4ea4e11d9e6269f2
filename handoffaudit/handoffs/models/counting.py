"""How many handoffs stand in which state, by hour of receipt."""

from django.db import models

from handoffaudit.accounts.models import Tenant


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
            models.Index(fields=["tenant", "state", "hour"], condition=models.Q(code=""), name="hourly_total_by_state"),
            # Whether any with a code stand in a state is asked before they are looked for.
            models.Index(fields=["tenant", "code", "state"], condition=~models.Q(code=""), name="hourly_total_by_code"),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.state} {self.number}"
