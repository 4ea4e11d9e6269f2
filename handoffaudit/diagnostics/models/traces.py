"""Who caused what along a trace: worked out after judging, so that pages about agents count nothing."""

from django.db import models

from handoffaudit.accounts.models import Tenant


class TracedHandoff(models.Model):
    """A judged handoff within its trace. `took_seconds` since its source was handed the work; None: it is not known.
    `caused` and `passed_on` count its findings, those of `verdict`. `grouped`: they are in their finding groups."""

    handoff = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField()
    source_agent_id = models.CharField(max_length=200)
    target_agent_id = models.CharField(max_length=200)
    took_seconds = models.FloatField(null=True)
    caused = models.PositiveIntegerField(default=0)
    passed_on = models.PositiveIntegerField(default=0)
    verdict = models.UUIDField(null=True)
    # Not yet true of what was gone over before there were groups.
    grouped = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            models.Index(fields=["handoff"], condition=models.Q(grouped=False), name="traced_not_grouped"),
            models.Index(fields=["tenant", "at"], name="traced_by_time"),
            models.Index(fields=["tenant", "trace_id"], name="traced_by_trace"),
            # Few are from one agent or to it: by time, all of the others would be read with them.
            models.Index(fields=["tenant", "source_agent_id", "at"], name="traced_by_source"),
            models.Index(fields=["tenant", "target_agent_id", "at"], name="traced_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.source_agent_id} → {self.target_agent_id}"


class Attribution(models.Model):
    """One finding and who is behind it: `caused` by the handoff's source, or passed on from `origin`, the handoff of
    the trace in which it came up first. `value` is what is wrong, where the finding is about a value."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=200, blank=True)
    handoff = models.UUIDField()
    at = models.DateTimeField()
    agent = models.CharField(max_length=200)
    code = models.CharField(max_length=100)
    field_path = models.CharField(max_length=500)
    value = models.CharField(max_length=200, blank=True)
    caused = models.BooleanField()
    origin = models.UUIDField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "agent", "at"], name="attribution_by_agent"),
            models.Index(fields=["tenant", "trace_id"], name="attribution_by_trace"),
            models.Index(fields=["tenant", "handoff"], name="attribution_by_handoff"),
        ]

    def __str__(self) -> str:
        return f"{self.code} by {self.agent}"


class Watermark(models.Model):
    """How far a background pass has come, so that the next one begins there, whichever process runs it."""

    name = models.CharField(primary_key=True, max_length=50)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} up to {self.at:%Y-%m-%d %H:%M:%S}"
