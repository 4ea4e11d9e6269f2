"""Tool results in hook events: what a tool that delegates nothing returned, stored as evidence of the session."""

from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from handoffaudit.accounts.keys import record_refusal
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import tool_results
from handoffaudit.handoffs.hooks.hook_events import Event, Name, raw_digest
from handoffaudit.handoffs.ingest.store import write_turn
from handoffaudit.handoffs.tool_results import ToolResultIn
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.formats.claude_code import MAIN
from handoffaudit.validation.text import clean_or_empty
from handoffaudit.validation.tool_results import Grade

# An LLM writes what these tools of Claude Code return: an answer about a page, the report of another agent, or the
# plans, tasks, messages and prompts that the agent wrote in an earlier call.
WRITTEN_BY_AN_LLM: Final = frozenset(
    {
        *("WebFetch", "WebSearch", "TaskOutput", "AgentOutputTool", "Skill", "SendMessage", "ExitPlanMode"),
        *("TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "CronCreate", "CronList"),
    }
)

SKIPPED: Final = "skipped"

_RESULT: Final = "tool_response"


@dataclass(frozen=True, slots=True)
class Captured:
    """What became of a result: a `Storage`, or `skipped` for the reason `why`; empty if there is nothing to store."""

    status: str = ""
    why: str = ""

    def as_answer(self) -> dict[str, str]:
        """Return the field of the answer; none if the key captures no evidence."""
        return {"tool_result": self.status} if self.status else {}


def capture(tenant: Tenant, sender: Actor, event: Event, grade: Grade, sent_at: object) -> Captured:
    """Store the tool result of an event, if the key captures evidence. `sent_at` is when the tool returned."""
    if event.name is not Name.HANDED_BACK or event.about_a_delegation or not grade.is_evidence:
        return Captured()
    if _RESULT not in event.document or not event.workflow:
        return Captured(SKIPPED, "The event has no result or no session.")
    tool = event.call.tool
    if tool in WRITTEN_BY_AN_LLM:
        return Captured(SKIPPED, f"An LLM writes the results of {tool}, so they are no evidence.")
    agent = (clean_or_empty(event.agent_type) if event.agent_id else "") or MAIN
    if not sender.agents.allows(agent):
        record_refusal(tenant, sender.agents, agent)
        return Captured(SKIPPED, sender.agents.describe_refusal(agent, "The tool result"))
    result = _read_result(event, tool, agent, sent_at)
    if result is None:
        return Captured(SKIPPED, "The name of the tool or the id of its call can't be stored.")
    now = timezone.now()
    rows = tool_results.make_rows(tenant.pk, event.workflow, [result], now)
    with write_turn(), transaction.atomic():
        (status,) = tool_results.store(rows, sender.name, grade, now)
    return Captured(status)


def _read_result(event: Event, tool: str, agent: str, sent_at: object) -> ToolResultIn | None:
    given: dict[str, Any] = {
        "tool": tool,
        "call_id": event.tool_use_id or raw_digest(event.raw),
        "agent": agent,
        "arguments": event.document.get("tool_input"),
        "result": event.document[_RESULT],
    }
    for at in (sent_at, timezone.now()):
        try:
            return ToolResultIn.model_validate(given | {"at": at})
        except ValidationError:
            # The clock of the host may be wrong or missing; then the time of receipt counts.
            continue
    return None
