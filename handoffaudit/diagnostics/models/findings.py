"""Findings along traces and in groups, worked out after judging, so that pages count nothing."""

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


_MUTED = models.Q(muted_at__isnull=False)

_REGRESSED = models.Q(regressed_at__isnull=False)


class FindingGroup(models.Model):
    """Findings of one code at one shape of path between the same two agents. `number` counts the handoffs that have
    one. Muted, it counts as noise until `number` reaches `muted_until` (None: for good); then it comes back as
    regressed."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    code = models.CharField(max_length=100)
    path_shape = models.CharField(max_length=500)
    source_agent_id = models.CharField(max_length=200)
    target_agent_id = models.CharField(max_length=200)
    # SHA-256 of the four above: together they are too long for an index of every database.
    key = models.CharField(max_length=64)
    number = models.PositiveBigIntegerField(default=0)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    muted_at = models.DateTimeField(null=True)
    muted_by = models.CharField(max_length=200, blank=True)
    muted_note = models.TextField(blank=True)
    muted_until = models.PositiveBigIntegerField(null=True)
    regressed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="one_group_per_key")]
        indexes = [
            models.Index(fields=["tenant", "last_seen"], name="group_by_last_seen"),
            models.Index(fields=["tenant", "number"], name="group_by_number"),
            models.Index(fields=["tenant", "code", "last_seen"], name="group_by_code"),
            # Few rows each, and looked for on every page of the review queue.
            models.Index(fields=["tenant", "muted_at"], condition=_MUTED, name="group_muted"),
            models.Index(fields=["tenant", "regressed_at"], condition=_REGRESSED, name="group_regressed"),
        ]

    def __str__(self) -> str:
        return f"{self.code} at {self.path_shape}, {self.source_agent_id} → {self.target_agent_id}"


class FindingGroupDay(models.Model):
    """How many handoffs received on a day (UTC) a group has: its trend."""

    group = models.ForeignKey(FindingGroup, on_delete=models.CASCADE, db_index=False)
    day = models.DateField()
    number = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "day"], name="one_group_day")]

    def __str__(self) -> str:
        return f"{self.day} {self.number}"


class GroupedHandoff(models.Model):
    """A handoff with a finding of a group. `decisive`: among its gravest, the errors, or the warnings of a handoff
    without errors."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    group = models.ForeignKey(FindingGroup, on_delete=models.CASCADE, db_index=False)
    handoff = models.UUIDField()
    decisive = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "handoff"], name="once_per_group")]
        indexes = [models.Index(fields=["tenant", "handoff"], name="grouped_by_handoff")]

    def __str__(self) -> str:
        return f"{self.handoff} in {self.group_id}"
