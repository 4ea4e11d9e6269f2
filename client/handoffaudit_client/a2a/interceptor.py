"""Interceptor for the messages of an A2A client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from a2a.client.interceptors import ClientCallInterceptor
from a2a.types import Message, Part, Role, SendMessageResponse, StreamResponse, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict

from handoffaudit_client.a2a.messages import question_of
from handoffaudit_client.identity import new_id
from handoffaudit_client.plugin_gate import PluginGate, show
from handoffaudit_client.plugins import Memory

if TYPE_CHECKING:
    from a2a.client.interceptors import AfterArgs, BeforeArgs

    from handoffaudit_client.plugins import AnyClient
    from handoffaudit_client.verdict import Verdict

_ANSWERS = {"send_message": SendMessageResponse, "send_message_streaming": StreamResponse}


class HandoffInterceptor(ClientCallInterceptor):
    """Ask for a verdict before a message goes to another agent.

    Give the interceptor to `create_client(interceptors=[...])`. `source` is the agent that sends; the target is the
    name on the card of the other agent. A blocked message is not sent: a task with the reason is the answer. Its state
    is `TASK_STATE_INPUT_REQUIRED` while the handoff is held, else `TASK_STATE_REJECTED`; its metadata have
    `handoff_id`, `why` and `url`. If the handoff is held, `policy="block"` waits at most `timeout` seconds for the
    decision of a person; `policy="interrupt"` does not wait. After the decision, send the same message again.
    `policy="observe"` sends the handoff and stops nothing.
    """

    def __init__(
        self,
        source: str,
        client: AnyClient | None = None,
        policy: Literal["block", "interrupt", "observe"] = "block",
        timeout: float = 300.0,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
    ) -> None:
        """Create an interceptor for an agent. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        self._gate = PluginGate(client, policy, timeout)
        self.client = self._gate.client
        self.source = source
        self.type = type
        self._held: Memory[str, bool] = Memory()

    async def before(self, args: BeforeArgs) -> None:
        """Send the handoff, or ask for the verdict. Answer a blocked message in place of the other agent."""
        if args.method not in _ANSWERS:
            return
        message = args.input.message
        message.message_id = message.message_id or new_id()
        question = question_of(MessageToDict(message), self.source, args.agent_card.name, "client", self.type)
        handoff_id = question["handoff_id"]
        if message.task_id == handoff_id:
            # The other agent does not know the task with which a held message was answered.
            message.task_id = ""
        verdict = await self._gate.ask_async(question)
        if verdict and not self._gate.must_interrupt(verdict, is_resumed=handoff_id in self._held):
            self._held.pop(handoff_id)
            return
        if verdict or verdict.is_open:
            self._held[handoff_id] = True
        args.early_return = _ANSWERS[args.method](task=_task(message, question, verdict))

    async def after(self, args: AfterArgs) -> None:
        """Do nothing, because the answer of an agent is not a handoff."""


def _task(message: Any, question: dict[str, Any], verdict: Verdict) -> Task:
    state = TaskState.TASK_STATE_INPUT_REQUIRED if verdict or verdict.is_open else TaskState.TASK_STATE_REJECTED
    handoff_id = question["handoff_id"]
    task_id, context_id = message.task_id or handoff_id, message.context_id or handoff_id
    told = Message(message_id=new_id(), role=Role.ROLE_AGENT, task_id=task_id, context_id=context_id)
    told.parts.append(Part(text=verdict.why))
    task = Task(id=task_id, context_id=context_id, status=TaskStatus(state=state, message=told), history=[message])
    task.metadata.update(show(question, verdict))
    return task
