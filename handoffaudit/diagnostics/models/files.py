"""Models of handoff files: each report, and hourly counts of reports and health lines together."""

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import new_id


class FileReport(models.Model):
    """A report on an agent's expected handoff file. Rows are only added, never changed.

    `handoff` is the handoff that the report arrived as. `reason` is empty if the file was used, `fallback` if the
    response text was not tried. `failed`: the phase should block, by the policy at that time. `content` is the answer
    that the sender got, as JSON.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.UUIDField(unique=True)
    at = models.DateTimeField()
    run_id = models.CharField(max_length=200, blank=True)
    agent = models.CharField(max_length=200)
    phase = models.CharField(max_length=200)
    runtime = models.CharField(max_length=200, blank=True)
    iteration = models.CharField(max_length=40, blank=True)
    expected_path = models.CharField(max_length=1000)
    # The path where a file of that name was found instead, the nearest of several.
    wrong_path = models.CharField(max_length=1000, blank=True)
    source = models.CharField(max_length=20)
    reason = models.CharField(max_length=20, blank=True)
    fallback = models.CharField(max_length=20, blank=True)
    failed = models.BooleanField()
    content = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "id"], name="file_report_by_time"),
            models.Index(fields=["tenant", "reason", "id"], name="file_report_by_reason"),
            models.Index(fields=["tenant", "agent", "phase", "id"], name="file_report_by_agent"),
            models.Index(fields=["tenant", "run_id", "id"], name="file_report_by_run"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} in {self.phase}: {self.reason or self.source}"


class HealthCount(models.Model):
    """How many handoff files of an hour were used or not, and why not, from reports and health lines of logs."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    hour = models.DateTimeField()
    agent = models.CharField(max_length=200)
    phase = models.CharField(max_length=200)
    runtime = models.CharField(max_length=200, blank=True)
    source = models.CharField(max_length=20)
    reason = models.CharField(max_length=20, blank=True)
    fallback = models.CharField(max_length=20, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "hour", "agent", "phase", "runtime", "source", "reason", "fallback"],
                name="one_health_count",
            )
        ]
        # A query steps through this index over every pair ever seen, also pairs that did not run lately.
        indexes = [models.Index(fields=["tenant", "phase", "agent"], name="health_count_by_pair")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.agent} in {self.phase}: {self.number}"
