"""Logs that were sent in: kept as compressed blocks of lines, so that a gigabyte is a few thousand rows."""

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import new_id


class LogImport(models.Model):
    """One log sent in. `source` is its name, the same when it is sent in again after it grew.

    `received_at`: all its bytes are stored. `finished_at`: all its lines are read. `lines` counts all of them, `known`
    those that an earlier import had, `bad` the new ones in no known format; `kinds` counts the new ones by format.
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
        indexes = [models.Index(fields=["tenant", "id"], name="log_import_by_time")]

    def __str__(self) -> str:
        return f"{self.source}, {self.lines} lines"


class LogPart(models.Model):
    """A part of a log that came in and waits for a worker to store its lines, compressed in `packed`; parts of an
    import are stored in their order, and are deleted with the last.

    `first_line`, `since` and `shift` are where the part before it ended: the number of its first line, how many bytes
    came after the last line that may end a block, and how many lines the log has lost at its head. `digests` are of the
    blocks that it was stored as, each on a line: they tell equal blocks of one import apart.
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
    claim = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["imported", "number"], name="one_log_part")]
        indexes = [models.Index(fields=["id"], condition=models.Q(stored_at=None), name="log_part_waiting")]

    def __str__(self) -> str:
        return f"part {self.number} of {self.imported_id}"


class LogBlock(models.Model):
    """Lines of a log that stand together. Cut where the content says, so that the same lines make the same block
    wherever they stand in a file that grew; `digest` is of the first line and of the whole text.

    `occurrence` tells equal blocks of one import apart. `tail`: the file ended here, and may have grown since; then the
    block grows too, and belongs to the import that it grew in. `counted` is how many bytes of it are counted already,
    `known` how many of its lines an earlier import had. `first_at` and `last_at` bound the times of its lines.
    `facets` has what its lines hold, as JSON: a search skips blocks by it. `removed_at`: retention took its lines; the
    block stays, so that the same lines are known when they are sent again.
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
    claim = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
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


class LogText(models.Model):
    """The lines of a block, compressed. In a row of its own, so that a search skips blocks without reading them."""

    block = models.OneToOneField(LogBlock, on_delete=models.CASCADE, primary_key=True, related_name="text")
    packed = models.BinaryField()

    def __str__(self) -> str:
        return str(self.pk)


class LogCount(models.Model):
    """How many lines of an hour say what: `event` is the event type of gate and trace lines, the reason of health
    lines; `component` is the gate's component, a trace's phase, a health line's agent. Bad lines have no hour of their
    own: they count in the hour of their import."""

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
