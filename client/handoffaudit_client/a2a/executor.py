"""Executor of an A2A server that asks for a verdict before the agent starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, SendMessageRequest, TaskState
from google.protobuf.json_format import MessageToDict

from handoffaudit_client.a2a.messages import question_of, source_in
from handoffaudit_client.plugin_gate import PluginGate, show

if TYPE_CHECKING:
    from handoffaudit_client.plugins import AnyClient
    from handoffaudit_client.verdict import Verdict

_HELD = "handoffaudit"  # the key of a held handoff in the metadata of the answer


class GatedExecutor(AgentExecutor):
    """Gate around the executor of an agent, for JSON-RPC, REST and gRPC, in the formats of A2A 1.x and 0.3.

    `target` is the name of the agent. If the handoff must not go on, its task ends with `TASK_STATE_REJECTED` and the
    reason. If the handoff is held or has no verdict yet, the answer is `TASK_STATE_INPUT_REQUIRED`. To ask for the
    decision, the client sends any message with the same `taskId`. After an approval, the agent gets the approved
    message, in the same task. With `policy="block"`, the request first waits at most `timeout` seconds for the decision
    of a person. `policy="observe"` sends the handoff and stops nothing.

    The source is the authenticated user, else `from`, `source` or `source_agent_id` in the metadata of the message,
    else the argument `source`.
    """

    def __init__(
        self,
        executor: AgentExecutor,
        target: str,
        client: AnyClient | None = None,
        policy: Literal["interrupt", "block", "observe"] = "interrupt",
        timeout: float = 300.0,
        *,
        source: str = "client",
        type: str | None = None,  # noqa: A002 (the word of the API)
    ) -> None:
        """Wrap the executor of one agent. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        self._gate = PluginGate(client, policy, timeout)
        self.client = self._gate.client
        self.executor = executor
        self.target = target
        self.source = source
        self.type = type

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        held = _held_message(context)
        plain = MessageToDict(held or context.message)
        user = context.call_context.user
        source = (user.user_name if user.is_authenticated else "") or source_in(plain) or self.source
        # The id contains the task, because an approval holds for one task.
        seam = f"server {context.task_id}"
        question = question_of({**plain, "contextId": context.context_id}, source, self.target, seam, self.type)
        verdict = await self._gate.ask_async(question)
        is_open = verdict.is_open or self._gate.must_interrupt(verdict, is_resumed=held is not None)
        if not verdict or is_open:
            await _answer(context, event_queue, question, verdict, is_open=is_open)
        elif held is None:
            await self.executor.execute(context, event_queue)
        else:
            await self.executor.execute(_with_message(context, held), _TaskQueue(context, event_queue))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self.executor.cancel(context, event_queue)


class _TaskQueue(EventQueue):
    """Queue that makes the agent's message the final status of the task: in a task, the SDK takes no bare message."""

    def __init__(self, context: RequestContext, queue: EventQueue) -> None:
        self._queue = queue
        self._updater = TaskUpdater(queue, context.task_id, context.context_id)

    async def enqueue_event(self, event: Any) -> None:
        if isinstance(event, Message):
            told = Message()
            told.CopyFrom(event)
            told.task_id, told.context_id = self._updater.task_id, self._updater.context_id
            await self._updater.complete(told)
        else:
            await self._queue.enqueue_event(event)


async def _answer(
    context: RequestContext, event_queue: EventQueue, question: dict[str, Any], verdict: Verdict, *, is_open: bool
) -> None:
    if context.current_task is None:
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
    updater = TaskUpdater(event_queue, context.task_id, context.context_id)
    message = _held_message(context) or context.message
    held = {**show(question, verdict), "message_id": message.message_id}
    told = updater.new_agent_message([Part(text=verdict.why)], metadata={_HELD: held})
    await (updater.requires_input(told) if is_open else updater.reject(told))


def _held_message(context: RequestContext) -> Message | None:
    """Return the message of the held handoff for which the task waits, or None."""
    task = context.current_task
    if task is None or task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
        return None
    held = MessageToDict(task.status.message.metadata).get(_HELD)
    message_id = held.get("message_id") if isinstance(held, dict) else None
    return next((one for one in task.history if one.message_id == message_id), None) if message_id else None


def _with_message(context: RequestContext, message: Message) -> RequestContext:
    request = SendMessageRequest(message=message, configuration=context.configuration)
    request.metadata.update(context.metadata)
    known = {"task_id": context.task_id, "context_id": context.context_id, "task": context.current_task}
    return RequestContext(context.call_context, request, related_tasks=context.related_tasks, **known)
