"""Gate for the delegations and tasks of crews. The gate also records the results of all other tools."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from crewai.hooks import InterceptionPoint, register_hook, unregister_hook

from handoffaudit_client.crewai.crews import data_of, delegation_of, inputs_of, result_of, role_of
from handoffaudit_client.identity import new_id
from handoffaudit_client.plugin_gate import PluginGate
from handoffaudit_client.plugins import Memory, reason_of
from handoffaudit_client.traces import scope_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoffaudit_client.plugins import AnyClient

# Why the tool call of this context was blocked, and the trace of the task of this context.
_why: ContextVar[str] = ContextVar("handoffaudit_why", default="")
_trace: ContextVar[str] = ContextVar("handoffaudit_crew_trace", default="")


class HandoffGate:
    """Send or gate the handoffs of all crews of the process, from the creation of the gate to `close()`.

    A blocked delegation does not happen: the answer of the tool tells the LLM why. If the handoff is held,
    `policy="block"` waits at most `timeout` seconds for the decision of a person; the thread of the crew waits.
    `policy="observe"` only sends. `type` is the handoff type. The reason of a handoff is the argument `handoff_reason`
    or `reason` of the tool call, else the parameter `reason`.
    """

    def __init__(
        self,
        client: AnyClient | None = None,
        policy: Literal["block", "observe"] = "block",
        timeout: float = 300.0,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
        reason: str | None = None,
    ) -> None:
        """Register the hooks of the gate. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        self._gate = PluginGate(client, policy, timeout, ("block", "observe"))
        self.client = self._gate.client
        self.type, self.reason = type, reason
        self._traces: Memory[str, str] = Memory()
        # Outputs that were sent, by identity (they cannot be hashed), text (guardrails change it), target and trace.
        self._sent: WeakValueDictionary[tuple[int, str, str, str], Any] = WeakValueDictionary()
        self._hooks = {
            InterceptionPoint.EXECUTION_START: self._start_run,
            InterceptionPoint.PRE_STEP: self._before_task,
            InterceptionPoint.PRE_TOOL_CALL: self._before_tool,
            InterceptionPoint.POST_TOOL_CALL: self._after_tool,
        }
        for point, hook in self._hooks.items():
            register_hook(point, hook)

    def close(self) -> None:
        """Remove the hooks of the gate."""
        for point, hook in self._hooks.items():
            unregister_hook(point, hook)

    def guardrail(self, target: str) -> Callable[[Any], Any]:
        """Return a guardrail for `Task(guardrail=...)` that judges the output before the task of `target` gets it.

        The agent of a blocked task reads why, and repeats the task.
        """

        def judge(output):  # type: ignore[no-untyped-def]  # CrewAI takes no annotation that is a text.
            source, self._sent[id(output), output.raw, target, _trace.get()] = str(output.agent).strip(), output
            verdict = self._gate.ask(self._question(source, target, data_of(output), _trace.get(), {}))
            return (True, output) if verdict else (False, verdict.why)

        return judge

    def _start_run(self, context: Any) -> None:
        self._traces[str(getattr(context.crew, "id", ""))] = new_id()

    def _before_task(self, context: Any) -> None:
        if context.kind != "task":
            return
        crew, target = getattr(context.agent, "crew", None), role_of(context.agent)
        _trace.set(trace := self._trace_of(crew))
        for output in inputs_of(context.task, crew):
            source, key = str(output.agent).strip(), (id(output), output.raw, target, trace)
            if source != target and key not in self._sent:
                self._sent[key] = output
                self.client.send(**self._question(source, target, data_of(output), trace, {}))

    def _before_tool(self, call: Any) -> bool | None:
        target, data = delegation_of(call)
        if target is None:
            return None
        verdict = self._gate.ask(
            self._question(role_of(call.agent), target, data, self._trace_of(call.crew), call.tool_input)
        )
        _why.set("" if verdict else verdict.why)
        return None if verdict else False

    def _after_tool(self, call: Any) -> str | None:
        if why := _why.get():
            _why.set("")
            return why
        if delegation_of(call)[0] is None:
            known = {"agent": role_of(call.agent), "trace": self._trace_of(call.crew)}
            self.client.tool_result(call.tool_name, result_of(call), arguments=call.tool_input, **known)
        return None

    def _question(self, source: str, target: str, data: Any, trace: str, arguments: Any) -> dict[str, Any]:
        names = {"source": source, "target": target, "handoff_id": new_id(), "trace": scope_trace() or trace or None}
        return {**names, "data": data, "type": self.type, "reason": reason_of(arguments, self.reason)}

    def _trace_of(self, crew: Any) -> str:
        key = str(getattr(crew, "id", ""))
        if (found := self._traces.get(key)) is None:
            self._traces[key] = found = new_id()
        return scope_trace() or found
