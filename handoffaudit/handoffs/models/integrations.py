"""Models of hook events, webhooks and their deliveries, tool results, telemetry, facts of traces, and leases."""

import json
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.leases import Leased
from handoffaudit.handoffs.models.handoff import Handoff, new_id
from handoffaudit.validation.tool_results import Grade


class HandedOut(models.Model):
    """A task that one agent gave to another. Several hook events report the same task.

    `session`, `tool_use` and `agent` are digests of ids, because ids can have any length: if long ids were cut off,
    unrelated tasks could get the same row. `handoff` handed the task out. `returned` is the latest handoff that
    handed the task back, and `deliverable` the digest of its deliverable. `over` says whether the end of the task
    was reported.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    session = models.CharField(max_length=64)
    tool_use = models.CharField(max_length=64, blank=True, default="")
    agent = models.CharField(max_length=64, blank=True, default="")
    target = models.CharField(max_length=200, blank=True, default="")
    handoff = models.UUIDField(null=True)
    returned = models.UUIDField(null=True)
    deliverable = models.CharField(max_length=64, blank=True, default="")
    over = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "session", "tool_use"], condition=~models.Q(tool_use=""), name="one_task_per_tool_use"
            ),
            models.UniqueConstraint(
                fields=["tenant", "session", "agent"], condition=~models.Q(agent=""), name="one_task_per_agent"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "session"], name="handed_out_by_session")]

    def __str__(self) -> str:
        return f"a task for {self.target}"


class HookEvent(models.Model):
    """A hook event that an agent host sent, and its answer.

    `key` identifies the event if the host sends it again. `answer` is empty until the event is answered. If the event
    arrives again, the host gets the same answer. An answer with the status UNKNOWN is replaced instead. `phase` has the
    phase rules and their results as JSON.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    key = models.CharField(max_length=64)
    name = models.CharField(max_length=40)
    at = models.DateTimeField()
    session_id = models.CharField(max_length=200, blank=True)
    workflow_id = models.CharField(max_length=200, blank=True)
    phase_id = models.CharField(max_length=200)
    handoff = models.UUIDField(null=True)
    phase = models.TextField(blank=True)
    status = models.CharField(max_length=20, blank=True)
    answer = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="one_answer_per_event")]

    def __str__(self) -> str:
        return f"{self.name}: {self.status}"


class ValidationState(models.Model):
    """The validation state that a hook event led to. Rows are added, and only an erasure changes them.

    A late verdict adds a second row for the event. `content` is the state in the form of the API. The state of a phase
    is the state of its newest event.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    event = models.UUIDField()
    workflow_id = models.CharField(max_length=200)
    phase_id = models.CharField(max_length=200)
    status = models.CharField(max_length=20)
    content = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["event", "status"], name="one_state_per_event_and_status")]
        indexes = [models.Index(fields=["tenant", "workflow_id", "phase_id", "event"], name="state_by_phase")]

    def __str__(self) -> str:
        return f"{self.workflow_id}/{self.phase_id}: {self.status}"


class SubscriberKind(models.TextChoices):
    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    EMAIL = "email"


class Subscriber(models.Model):
    """A receiver of events: a webhook, which gets signed requests, a chat of Slack or Teams, or an e-mail address.

    `events` holds values of `EventType` (`webhooks/subscriptions.py`). `states` limits verdicts to these states (empty:
    all states). `secret` signs the requests of a webhook; both sides need it, so it is stored in plain text. The
    subscriber gets the events after `heard_from`, the time at which it was created or last enabled.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    kind = models.CharField(max_length=10, choices=SubscriberKind.choices)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=500)
    secret = models.CharField(max_length=100, blank=True)
    events = models.JSONField(default=list)
    states = models.JSONField(default=list)
    active = models.BooleanField(default=True)
    heard_from = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class Delivery(models.Model):
    """The delivery of one event to one subscriber.

    `about` names the event and is unique for each subscriber. `payload` is the exact request body. `gave_up_at` is set
    when the delivery is given up: after the last failed try, after three days without a try, or after a `410 Gone`.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    subscriber = models.ForeignKey(Subscriber, on_delete=models.CASCADE, db_index=False)
    event = models.CharField(max_length=10)
    about = models.CharField(max_length=100)
    payload = models.TextField()
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    claim = models.UUIDField(null=True)
    delivered_at = models.DateTimeField(null=True)
    gave_up_at = models.DateTimeField(null=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    last_error = models.CharField(max_length=500, blank=True)
    last_ms = models.FloatField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subscriber", "about"], name="one_delivery_per_event")]
        indexes = [
            # `due_at` is empty after a delivery succeeded or was given up, and while its webhook is paused.
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="delivery_due"),
            models.Index(
                fields=["subscriber", "due_at"], condition=models.Q(due_at__isnull=False), name="delivery_due_of_one"
            ),
            models.Index(fields=["tenant", "subscriber", "id"], name="delivery_by_subscriber"),
        ]

    def __str__(self) -> str:
        return f"{self.about}, {self.tries} tries"


class Gathering(models.Model):
    """The progress of the scan for events to deliver, in a single row.

    All events up to `reached` were scanned, except for the ids in `gaps`. A gap is `[first, last, at]`, where `at` is
    the time at which the ids were found missing, in seconds since 1970. An id can be missing for a while, because
    transactions do not commit in the order of their ids. `pass_number` counts the scans, so that only one of two
    concurrent scans is stored.
    """

    reached = models.BigIntegerField(default=0)
    gaps = models.JSONField(default=list)
    pass_number = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"events up to {self.reached}"


GRADES: Final = {
    Grade.OUTSIDE: "captured outside the sender's process",
    Grade.IN_PROCESS: "captured in the sender's process",
    Grade.SAID: "said by the sender",
}


class ToolResult(models.Model):
    """The result of a tool call in a trace, masked and cut at 16 KiB.

    `at` is the time of the result, never later than its arrival. `sender` is the name of the key that sent it.
    `content` is JSON. `evidence` is `content` without the values of the call's own arguments, or empty if `content` has
    none of these values. `values` is a JSON list of the values in the part that was cut off. `sha256` is the hash of
    the whole result. `size` counts the stored bytes and an allowance for the row.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=200)
    call_id = models.CharField(max_length=200)
    tool = models.CharField(max_length=200)
    agent = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField()
    grade = models.CharField(max_length=10, choices=[(grade.value, GRADES[grade]) for grade in Grade])
    sender = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    # The columns are not jsonb, because PostgreSQL's jsonb refuses the NUL character, which is valid in JSON.
    content = models.TextField()
    evidence = models.TextField(blank=True)
    values = models.TextField(blank=True)
    is_cut = models.BooleanField(default=False)
    size = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "trace_id", "call_id"], name="one_result_per_call"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.call_id}"


class LateResults(Leased):
    """A trace that got tool results after some of its handoffs. A worker judges these handoffs again.

    `since` is the time at which the newest late result arrived.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=200)
    since = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "trace_id"], name="one_queue_row_per_trace")]

    def __str__(self) -> str:
        return f"late results of {self.trace_id}"


class TelemetryTrace(Leased):
    """A trace of OpenTelemetry whose spans are being gathered. A worker finds the handoffs in the spans.

    `trace_id` is the trace id of OpenTelemetry. `conversation` joins the trace with other traces. `since` is the time
    of the newest export. `spans` and `size` count the stored spans and their bytes; a process locks the row before it
    changes these counts. `refused` has the span, source and target of each handoff that was refused, so that the next
    look leaves the handoff out. The trace is due next at `claim_expires_at`: from then on, a worker can lease it.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=32)
    conversation = models.CharField(max_length=200, blank=True)
    since = models.DateTimeField()
    spans = models.PositiveIntegerField()
    size = models.PositiveIntegerField()
    refused = models.JSONField(default=list, db_default=[])

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "trace_id"], name="one_row_per_telemetry_trace")]
        indexes = [
            models.Index(
                fields=["tenant", "conversation"], condition=~models.Q(conversation=""), name="telemetry_conversation"
            ),
            models.Index(fields=["claim_expires_at"], name="telemetry_due"),
        ]

    def __str__(self) -> str:
        return f"{self.spans} spans of {self.trace_id}"


class TelemetrySpan(models.Model):
    """The facts of one span that the rules need, as JSON.

    A span that is sent again is stored again only if a key of a better grade sends it.
    `key` is the number of the key that sent the span. `started` and `ended` are nanoseconds since 1970. Rows are
    removed with their trace.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=32)
    span_id = models.CharField(max_length=16)
    parent_id = models.CharField(max_length=16, blank=True)
    name = models.CharField(max_length=200, blank=True)
    started = models.BigIntegerField()
    ended = models.BigIntegerField()
    conversation = models.CharField(max_length=200, blank=True)
    key = models.BigIntegerField()
    facts = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["tenant", "trace_id", "span_id"], name="telemetry_span_by_id")]

    def __str__(self) -> str:
        return f"{self.name} {self.span_id}"


class FactKind(models.TextChoices):
    """The kinds of facts.

    `evidence`: the texts of an agent that is declared as an observer or a person. `reported`: the values of unknown
    origin in the claims of any other agent.
    """

    EVIDENCE = "evidence"
    REPORTED = "reported"


class TraceFact(models.Model):
    """The facts that one handoff brought into its trace, one in each line.

    The facts are evidence, or the reported values in the normalised form that `keys_of` returns.
    """

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="trace_fact"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    trace_id = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=FactKind.choices)
    label = models.CharField(max_length=200, blank=True)
    content = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["tenant", "trace_id", "handoff"], name="trace_fact_by_trace")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.handoff_id}"


class AgentBehaviour(models.Model):
    """The forms of the newest handoffs of an agent, one character for each handoff.

    1 is a handoff that answers a tool call or looks like the output of a program. 0 is any other handoff.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    agent = models.CharField(max_length=200)
    forms = models.CharField(max_length=8)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "agent"], name="one_behaviour_per_agent")]

    def __str__(self) -> str:
        return f"{self.agent} {self.forms}"


class HandoffKeys(models.Field):  # type: ignore[type-arg]
    """The primary keys of some handoffs: an array on PostgreSQL, JSON text on SQLite."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "uuid[]" if connection.vendor == "postgresql" else "text"

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002
        return list(value) if connection.vendor == "postgresql" else json.dumps([pk.hex for pk in value])

    def from_db_value(self, value: Any, *_: object) -> list[uuid.UUID]:
        return value if isinstance(value, list) else [uuid.UUID(pk) for pk in json.loads(value)]


class JudgeLease(models.Model):
    """The lease of a worker on handoffs that no worker has tried before (`handoffs/judge_leases.py`).

    The row leases all its handoffs together. The rows of the handoffs do not change before their verdicts are stored.
    `at` is the time at which the lease began.
    """

    token = models.UUIDField(primary_key=True)
    at = models.DateTimeField()
    expires_at = models.DateTimeField()
    handoffs = HandoffKeys()

    def __str__(self) -> str:
        return f"a lease on {len(self.handoffs)} handoffs until {self.expires_at}"

    @classmethod
    def select_handoffs(cls, condition: str = "", values: Sequence[datetime] = ()) -> RawSQL:
        """Return a subquery of all handoffs in leases, for `pk__in`; `condition` is SQL about the lease."""
        table = cls._meta.db_table
        if connection.vendor == "postgresql":
            sql = f'SELECT unnest(handoffs) FROM "{table}"'  # noqa: S608
        else:
            sql = f'SELECT named.value FROM "{table}", json_each("{table}".handoffs) AS named'  # noqa: S608
        bound = [connection.ops.adapt_datetimefield_value(value) for value in values]
        return RawSQL(f"{sql} WHERE {condition}" if condition else sql, bound)  # noqa: S611 -- no input in the text
