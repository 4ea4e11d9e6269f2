"""Models of logs and of reports on handoff files."""

import zlib

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.leases import Leased
from handoffaudit.handoffs.models import new_id


class LogImport(models.Model):
    """One upload of a log. `source` is the name of the log; uploads of the same log have the same name.

    `received_at` is set when all bytes are stored, `finished_at` when all lines are read. `lines` counts all lines, and
    `known` the lines that an earlier import had. Of the new lines, `read` counts those in a known format, and `bad` the
    others. `kinds` counts the read lines by format.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    source = models.CharField(max_length=200)
    sent_by = models.CharField(max_length=200)
    started_at = models.DateTimeField()
    received_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    size = models.BigIntegerField(default=0)
    lines = models.BigIntegerField(default=0)
    known = models.BigIntegerField(default=0)
    read = models.BigIntegerField(default=0)
    bad = models.BigIntegerField(default=0)
    kinds = models.JSONField(default=dict)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "id"], name="log_import_by_time"),
            models.Index(fields=["tenant", "source", "id"], name="log_import_by_name"),
            models.Index(fields=["tenant", "size", "id"], name="log_import_by_size"),
            models.Index(fields=["tenant", "bad", "id"], name="log_import_by_bad"),
        ]

    def __str__(self) -> str:
        return f"{self.source}, {self.lines} lines"


class LogPart(Leased):
    """A part of an uploaded log that waits for a worker to store its lines, compressed in `packed`.

    Workers store the parts of an import in order, and delete all its parts as soon as the last part is stored. Three
    columns are known only after the previous part is stored. `first_line` is the number of the first line. `since` is
    the number of bytes between the last line that may end a block and this part. `shift` is the number of lines that
    the log has lost at its start. `digests` has the digests of the part's blocks, one per line, so that equal blocks of
    one import can be numbered.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    imported = models.ForeignKey(LogImport, on_delete=models.CASCADE, db_index=False, related_name="parts")
    number = models.PositiveIntegerField()
    packed = models.BinaryField()
    size = models.PositiveIntegerField()
    first_line = models.BigIntegerField(default=1)
    since = models.PositiveIntegerField()
    shift = models.BigIntegerField(default=0)
    digests = models.TextField(blank=True)
    stored_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["imported", "number"], name="one_log_part")]
        indexes = [models.Index(fields=["id"], condition=models.Q(stored_at=None), name="log_part_waiting")]

    def __str__(self) -> str:
        return f"part {self.number} of {self.imported_id}"


class LogBlock(Leased):
    """A block of consecutive lines of a log.

    The lines decide where a block ends, so that the same lines form the same block even if the file grew. The first 16
    characters of `digest` identify the text of the first line, and the others identify the whole text.

    `occurrence` numbers equal blocks of one import. `tail` is true if the file ended here; if the file grows, the block
    grows as well, and then belongs to the later import. `counted` is the number of bytes whose lines are already
    counted, `known` the number of lines that an earlier import had. All times of the lines are between `first_at` and
    `last_at`. `facets` describes the lines as JSON, so that a search can skip the block. If `removed_at` is set,
    retention has removed the lines; the row stays, so that the same lines are recognized when they are sent again.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    imported = models.ForeignKey(LogImport, on_delete=models.CASCADE)
    source = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    occurrence = models.PositiveIntegerField(default=0)
    first_line = models.BigIntegerField()
    lines = models.PositiveIntegerField()
    size = models.PositiveIntegerField()
    tail = models.BooleanField(default=False)
    counted = models.PositiveIntegerField(default=0)
    known = models.PositiveIntegerField(default=0)
    bad = models.PositiveIntegerField(default=0)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    facets = models.TextField(blank=True)
    parsed_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "source", "digest", "occurrence"], name="one_log_block"),
        ]
        indexes = [
            models.Index(fields=["tenant", "last_at"], name="log_block_by_time"),
            models.Index(fields=["tenant", "source"], condition=models.Q(tail=True), name="log_block_tail"),
            models.Index(fields=["tenant", "id"], condition=models.Q(removed_at=None), name="log_block_kept"),
            models.Index(
                fields=["claim_expires_at", "id"], condition=models.Q(parsed_at=None), name="log_block_unread"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source} from line {self.first_line}"

    def load_text(self) -> bytes:
        """Return the lines of the block. Raise `LogText.DoesNotExist` if they were removed."""
        return zlib.decompress(LogText.objects.values_list("packed", flat=True).get(block=self.pk))


class LogText(models.Model):
    """The compressed lines of a block. The separate table lets a search skip blocks without reading their lines."""

    block = models.OneToOneField(LogBlock, on_delete=models.CASCADE, primary_key=True, related_name="text")
    packed = models.BinaryField()

    def __str__(self) -> str:
        return str(self.pk)


class LogCount(models.Model):
    """The number of log lines of an hour with the same kind, event, level and component.

    `event` is the event type of gate and trace lines, or the reason of health lines. `component` is the gate's
    component, a trace's phase or a health line's agent. Bad lines have no time, so they count for the hour of their
    import.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    hour = models.DateTimeField()
    kind = models.CharField(max_length=10)
    event = models.CharField(max_length=40, blank=True)
    level = models.CharField(max_length=10, blank=True)
    component = models.CharField(max_length=200, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "hour", "kind", "event", "level", "component"], name="one_log_count"
            )
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.kind} {self.event}: {self.number}"


class FileReport(models.Model):
    """A report on an agent's expected handoff file. Only an erasure changes a stored report.

    `handoff` is the handoff that was made from the report. `reason` is empty if the file was used. `fallback` is empty
    if the response text was not tried. `failed` is true if the phase failed by the policy in force when the report
    arrived. `content` is the answer to the sender, as JSON.
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
    # The path at which a file of the same name was found instead, the nearest of several.
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
    """The number of handoff files of an hour with the same outcome, from file reports and health lines of logs."""

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

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.agent} in {self.phase}: {self.number}"


class DailyFileCount(models.Model):
    """The handoff files of a day (UTC) by agent, phase and runtime: the sums of `HealthCount` as a `FileTally`."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    day = models.DateField()
    agent = models.CharField(max_length=200)
    phase = models.CharField(max_length=200)
    runtime = models.CharField(max_length=200, blank=True)
    used = models.BigIntegerField(default=0)
    file_missing = models.BigIntegerField(default=0)
    json_parse_error = models.BigIntegerField(default=0)
    schema_invalid = models.BigIntegerField(default=0)
    other = models.BigIntegerField(default=0)
    fallback_ok = models.BigIntegerField(default=0)
    fallback_failed = models.BigIntegerField(default=0)
    text_fallback_ok = models.BigIntegerField(default=0)
    text_fallback_fail = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "day", "agent", "phase", "runtime"], name="one_daily_file_count")
        ]
        # With this index, `file_stats.known_pairs` finds all pairs that were ever seen, without reading every row.
        indexes = [models.Index(fields=["tenant", "phase", "agent"], name="daily_files_by_pair")]

    def __str__(self) -> str:
        return f"{self.day} {self.agent} in {self.phase}"


class HourlyFileCount(models.Model):
    """The handoff files of an hour with the same outcome: sums of `HealthCount` over agents, phases and runtimes."""

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    hour = models.DateTimeField()
    source = models.CharField(max_length=20)
    reason = models.CharField(max_length=20, blank=True)
    fallback = models.CharField(max_length=20, blank=True)
    number = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "hour", "source", "reason", "fallback"], name="one_hourly_file_count"
            )
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H} {self.reason or self.source}: {self.number}"
