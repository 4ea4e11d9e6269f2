"""Models of findings along traces and in groups, and of the removal of old data; `log_models` has the others."""

import uuid

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.log_models import (
    DailyFileCount,
    FileReport,
    HealthCount,
    HourlyFileCount,
    LogBlock,
    LogCount,
    LogImport,
    LogPart,
    LogText,
)
from handoffaudit.handoffs.models import new_id

__all__ = [
    "NOWHERE",
    "Attribution",
    "BlockedText",
    "CodeMute",
    "DailyFileCount",
    "Erasure",
    "ErasureState",
    "FileReport",
    "FindingGroup",
    "FindingGroupDay",
    "FindingGroupRoute",
    "GroupedHandoff",
    "HealthCount",
    "HourlyFileCount",
    "LogBlock",
    "LogCount",
    "LogImport",
    "LogPart",
    "LogText",
    "RetentionRun",
    "TracedHandoff",
    "Watermark",
]

NOWHERE = uuid.UUID(int=0)


class TracedHandoff(models.Model):
    """A judged handoff within its trace.

    `took_seconds` is the time since its source received the work, or None if unknown. `caused` and `passed_on` count
    the introduced and inherited findings of `verdict`. `grouped` is true if the findings are in their groups.
    """

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
    # Handoffs that were attributed before finding groups existed are not grouped yet.
    grouped = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            models.Index(fields=["handoff"], condition=models.Q(grouped=False), name="traced_not_grouped"),
            models.Index(fields=["tenant", "at"], name="traced_by_time"),
            models.Index(fields=["tenant", "trace_id"], name="traced_by_trace"),
            # Only few handoffs name a given agent. With an index by time alone, a query for the agent would read all
            # handoffs.
            models.Index(fields=["tenant", "source_agent_id", "at"], name="traced_by_source"),
            models.Index(fields=["tenant", "target_agent_id", "at"], name="traced_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.source_agent_id} → {self.target_agent_id}"


class Attribution(models.Model):
    """A finding, introduced (`caused`) by the handoff's source or inherited from `origin`.

    `origin` is the earlier handoff of the trace in which the finding appeared first, or None. `value` is the wrong
    value, or empty if the finding is not about a value.
    """

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


class BlockedText(models.Model):
    """The distinct words of the document of a blocked handoff, in lower case and without secrets, for the search.

    The first word stands for the tenant. `diagnostics.text_index` creates the index of the words.
    """

    handoff = models.UUIDField(unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    words = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["tenant", "id"], name="blocked_text_by_tenant")]

    def __str__(self) -> str:
        return f"the words of {self.handoff}"


class Watermark(models.Model):
    """A named time: the progress, last run or lease end of a background job, or the last heartbeat of a worker."""

    name = models.CharField(primary_key=True, max_length=50)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} up to {self.at:%Y-%m-%d %H:%M:%S}"


_MUTED, _REGRESSED = models.Q(muted_at__isnull=False), models.Q(regressed_at__isnull=False)


class FindingGroup(models.Model):
    """A group of findings with the same code and the same shape of path.

    `number` counts the handoffs with such a finding. A muted group stays muted until `number` reaches `muted_until`
    (None: forever), and then comes back as regressed. If `muted_by_code` is set, the group is muted as long as its rule
    code.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    code = models.CharField(max_length=100)
    path_shape = models.CharField(max_length=500)
    # The key is the SHA-256 of the two columns above, which together are too long for an index.
    key = models.CharField(max_length=64)
    number = models.PositiveBigIntegerField(default=0)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    muted_at = models.DateTimeField(null=True)
    muted_by = models.CharField(max_length=200, blank=True)
    muted_note = models.TextField(blank=True)
    muted_until = models.PositiveBigIntegerField(null=True)
    muted_by_code = models.BooleanField(default=False, db_default=False)
    regressed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="one_group_per_key")]
        indexes = [
            models.Index(fields=["tenant", "last_seen"], name="group_by_last_seen"),
            models.Index(fields=["tenant", "number"], name="group_by_number"),
            models.Index(fields=["tenant", "code", "last_seen"], name="group_by_code"),
            # Every page of the review queue queries these rows. The partial indexes are small, because few rows match.
            models.Index(fields=["tenant", "muted_at"], condition=_MUTED, name="group_muted"),
            models.Index(fields=["tenant", "regressed_at"], condition=_REGRESSED, name="group_regressed"),
        ]

    def __str__(self) -> str:
        return f"{self.code} at {self.path_shape}"


class CodeMute(models.Model):
    """A rule code that is muted in the whole tenant: its groups, present and later ones, are muted until `until`."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    code = models.CharField(max_length=100)
    muted_at = models.DateTimeField()
    muted_by = models.CharField(max_length=200)
    note = models.TextField()
    until = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "code"], name="one_mute_per_code")]

    def __str__(self) -> str:
        return f"{self.code} until {self.until:%Y-%m-%d}"


class FindingGroupDay(models.Model):
    """The number of handoffs of a group on a day (UTC), for the trend of the group."""

    group = models.ForeignKey(FindingGroup, on_delete=models.CASCADE, db_index=False)
    day = models.DateField()
    number = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "day"], name="one_group_day")]

    def __str__(self) -> str:
        return f"{self.day} {self.number}"


class FindingGroupRoute(models.Model):
    """The number of handoffs of a group on a route."""

    group = models.ForeignKey(FindingGroup, on_delete=models.CASCADE, db_index=False)
    source_agent_id = models.CharField(max_length=200)
    target_agent_id = models.CharField(max_length=200)
    number = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["group", "source_agent_id", "target_agent_id"], name="one_group_route")
        ]
        indexes = [
            models.Index(fields=["group", "number", "id"], name="group_route_by_number"),
            models.Index(fields=["group", "target_agent_id"], name="group_route_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.source_agent_id} → {self.target_agent_id}: {self.number}"


class GroupedHandoff(models.Model):
    """A handoff with a finding of a group.

    `decisive` is true if the finding is among the gravest findings of the handoff: its errors or, without errors, its
    warnings.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    group = models.ForeignKey(FindingGroup, on_delete=models.CASCADE, db_index=False)
    handoff = models.UUIDField()
    decisive = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "handoff"], name="once_per_group")]
        indexes = [models.Index(fields=["tenant", "handoff"], name="grouped_by_handoff")]

    def __str__(self) -> str:
        return f"{self.handoff} in {self.group_id}"


class RetentionRun(models.Model):
    """The newest retention run over one kind of data of a tenant.

    `days` and `types` are the rule of the run. `before` is the limit of its shortest term: the run removes nothing
    newer. The run has removed `number` items so far, up to the key `reached`; any process can continue an unfinished
    run. `removed` counts the items that all runs have removed. `removed_at`, `removed_before` and `removed_days`
    describe the last run that removed any data.
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

    @classmethod
    def last_removal(cls, tenant: Tenant, kind: str) -> "RetentionRun | None":
        """Return the last run that removed data of this kind, or None. Pages without data mention this run."""
        return cls.objects.filter(tenant=tenant, kind=kind).exclude(removed_at=None).first()

    @classmethod
    def removal_message(cls, tenant: Tenant, kind: str) -> str:
        """Return a sentence about the last removal, to add to another sentence; empty if nothing was removed."""
        run = cls.last_removal(tenant, kind)
        if run is None or run.removed_before is None or run.removed_at is None:
            return ""
        before, day = (f"{at.day} {at:%b %Y}" for at in (run.removed_before, run.removed_at))
        return f" Retention removed data from before {before} on {day}."


class ErasureState(models.TextChoices):
    COUNTING = "counting"
    COUNTED = "counted"
    ERASING = "erasing"
    DONE = "done"
    CANCELLED = "cancelled"


class Erasure(models.Model):
    """The erasure of one value, such as the e-mail of a person: first counted, then erased after a confirmation.

    `value` is empty after the end. `digest` identifies the value later: it is an HMAC of the value with the secret key.
    `step` is the index of the current kind of row in `removal.TARGETS`, and `reached` the last processed row of that
    kind. `found`, `erased` and `held` count rows by kind; `held` rows are kept by a legal hold.
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
