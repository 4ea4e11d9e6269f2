"""Counts of handoffs by state, per hour and per day, and the totals of the metrics.

The hour and the day are those of `Handoff.at`. This is the time of receipt or, for a handoff that was sent late, the
time that its sender named.
"""

from django.db import models

from handoffaudit.accounts.models import Tenant


class HourlyCount(models.Model):
    """The number of handoffs of an hour that are now in a state, by type and route.

    Retention adds the hours of an old day to its first hour. Rows with an empty `code` count all handoffs. Other rows
    count the handoffs with a finding of that rule code.
    """

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
    """The hourly counts summed over all types and agents. Pages that show totals read this small table."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    hour = models.DateTimeField()
    state = models.CharField(max_length=10)
    code = models.CharField(max_length=100, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "hour", "state", "code"], name="one_hourly_total")]
        # The overview sums all hours of one state, which the first index makes fast.
        indexes = [
            models.Index(fields=["tenant", "state", "hour"], condition=models.Q(code=""), name="hourly_total_by_state"),
            # The review queue searches for handoffs with a rule code only in states that have such handoffs, and finds
            # these states with this index.
            models.Index(fields=["tenant", "code", "state"], condition=~models.Q(code=""), name="hourly_total_by_code"),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.state} {self.number}"


class _Outcomes(models.Model):
    """The outcomes of judged handoffs.

    `decided` handoffs are approved; `stopped` handoffs are rejected, held or declined.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    source_agent_id = models.CharField(max_length=200)
    accepted = models.BigIntegerField(default=0)
    decided = models.BigIntegerField(default=0)
    stopped = models.BigIntegerField(default=0)
    superseded = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class HourlySource(_Outcomes):
    """The outcomes of an hour by source agent."""

    hour = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "source_agent_id", "hour"], name="one_hourly_source")]
        # The page of an agent reads the hours of one agent, and the overview some hours of all agents.
        indexes = [models.Index(fields=["tenant", "hour"], name="hourly_source_by_hour")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.source_agent_id}"


class DailyCount(_Outcomes):
    """The outcomes of a day (UTC) by type and source agent, for reports over weeks.

    `code` has the same meaning as in `HourlyCount`.
    """

    day = models.DateField()
    code = models.CharField(max_length=100, blank=True)
    handoff_type = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "code", "day", "source_agent_id", "handoff_type"], name="one_daily_count"
            )
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.source_agent_id} {self.code}"


class DailyPair(_Outcomes):
    """The outcomes of all handoffs of a day (UTC), by source and target agent."""

    day = models.DateField()
    target_agent_id = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "day", "source_agent_id", "target_agent_id"], name="one_daily_pair"
            )
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.source_agent_id} → {self.target_agent_id}"


class MetricTotal(models.Model):
    """A total since the installation for the metrics of the product, over all tenants and processes."""

    name = models.CharField(max_length=40)
    label = models.CharField(max_length=60, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "label"], name="one_metric_total")]

    def __str__(self) -> str:
        return f"{self.name} {self.label} {self.number}"
