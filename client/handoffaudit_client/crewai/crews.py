"""Reading of crews."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DELEGATIONS = {"delegate_work_to_coworker": "task", "ask_question_to_coworker": "question"}

_FAILED = "Error executing tool"


def role_of(agent: Any) -> str:
    return str(getattr(agent, "role", None) or "agent").strip()


def delegation_of(call: Any) -> tuple[str | None, dict[str, Any]]:
    """Return the target and the data of a delegation.

    The target is None if the tool delegates nothing, names nobody, or names an agent outside of the crew: such a
    delegation fails.
    """
    name = _DELEGATIONS.get(call.tool_name)
    if name is None:
        return None, {}
    given = call.tool_input if isinstance(call.tool_input, dict) else {}
    coworker = str(given.get("coworker") or given.get("co_worker") or "").strip()
    data = {key: given[key] for key in (name, "context") if given.get(key)}
    roles = {_plain(role_of(agent)): role_of(agent) for agent in getattr(call.crew, "agents", None) or ()}
    return roles.get(_plain(coworker)) if roles else coworker or None, data


def inputs_of(task: Any, crew: Any) -> Iterator[Any]:
    """Yield the outputs that a task gets: of the tasks in `task.context`, else of earlier tasks of the crew.

    CrewAI gives a task without `context` the outputs of all earlier tasks. An asynchronous task gets fewer outputs, and
    a task whose `context` is None gets none. The outputs that a task gets are in its `prompt_context`.
    """
    tasks = list(getattr(crew, "tasks", None) or ())
    at = next((number for number, one in enumerate(tasks) if one is task), 0)
    for one in task.context if isinstance(task.context, list) else tasks[:at]:
        if one.output is not None and one.output.raw in (task.prompt_context or ()):
            yield one.output


def data_of(output: Any) -> Any:
    """Return the output of a task: its model, else its JSON, else its text.

    CrewAI reads the JSON only after the guardrails.
    """
    for found in (output.pydantic, output.json_dict):
        if found is not None:
            return found
    raw = output.raw
    try:
        return raw if output.output_format == "raw" else json.loads(raw[raw.find("{") : raw.rfind("}") + 1])
    except ValueError:
        return raw


def result_of(call: Any) -> Any:
    """Return the result of a tool, or its failure."""
    is_failed = isinstance(call.tool_result, str) and call.tool_result.startswith(_FAILED)
    return {"error": call.tool_result} if is_failed else call.raw_tool_result


def _plain(role: str) -> str:
    return " ".join(role.split()).replace('"', "").casefold()
