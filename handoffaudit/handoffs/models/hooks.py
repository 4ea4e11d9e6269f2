"""Hook events of agent hosts, the tasks that these events report, and the answer to each event."""

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models.handoff import new_id


class HandedOut(models.Model):
    """A task given to another agent, joined from several hook events.

    `session`, `tool_use` and `agent` are digests, because senders choose the length of their ids, and cut ids could
    join unrelated tasks. `handoff` handed the task out. `returned` is the latest handoff that handed the task back, and
    `deliverable` the digest of its deliverable. `over` says that the end of the task was reported.
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
    """A hook event that an agent host sent, and the answer to it.

    `key` identifies the event if the host sends it again. `answer` is the first answer, empty until there is one.
    `phase` has the phase rules and their results, as JSON.
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
    """The validation state that a hook event led to. Rows are only added, never changed.

    A late verdict adds a second row for the event. `content` is the state as the API shows it. The state of a phase is
    that of its newest event.
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
