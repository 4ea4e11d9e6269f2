"""Hook events of agent hosts: the tasks that they tell of, and the answer to each event."""

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models.handoff import new_id


class HandedOut(models.Model):
    """One task given to another agent, joined from the events that tell of it.

    `session`, `tool_use` and `agent` are digests: senders choose how long their ids are, and what is cut would join
    strangers. `handoff` handed it out and `returned` handed it back last, with a deliverable of that digest. `over`:
    its end was reported.
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
    """One event that the gate was asked about. `key` is what it is known by when it comes again; `answer` is what was
    said first, empty until then. `phase` holds the phase rules and their results, as JSON."""

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
    """What an event came to. Only added, never changed: where a verdict came late, another row follows the first.
    `content` is the state as the API shows it; of a phase the newest event's counts."""

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
