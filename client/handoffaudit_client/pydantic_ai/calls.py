"""Questions about handoffs, made from tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelResponse, UserPromptPart

from handoffaudit_client.plugins import handoff_id_of

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolCallPart


def question_of(
    ctx: RunContext[Any],
    call: ToolCallPart,
    source: str,
    target: str,
    args: dict[str, Any],
    trace: str,
) -> dict[str, Any]:
    """Return the parameters of `Client.gate` for a tool call.

    The data is the arguments of the call or, if all of them are empty, the last text of the messages. The same call
    gives the same id in each process, so that a resumed run asks about the handoff that was held.
    """
    return {
        "source": source,
        "target": target,
        "data": args if any(value not in (None, "") for value in args.values()) else _last_text(ctx) or {},
        "trace": trace or None,
        "handoff_id": handoff_id_of(trace, call.tool_call_id),
    }


def _last_text(ctx: RunContext[Any]) -> str:
    """Return the last text that the agent wrote or received; '' if there is none."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            found = message.text or ""
        else:
            parts = [part.content for part in message.parts if isinstance(part, UserPromptPart)]
            found = next((part for part in reversed(parts) if isinstance(part, str)), "")
        if found.strip():
            return found
    return ""
