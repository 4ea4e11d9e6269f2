"""Customer service under a written policy: handoffs between customer, agent and tools, with the outcome of the run.

The handoffs of a successful run are sound. In a failed run, only the steps that people named have a label.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from handoffaudit.evaluation.items import Beside, Item, Label, Line, payload
from handoffaudit.evaluation.kinds.turns import Block, blocks_of, borders_of, earlier_turns
from handoffaudit.validation.record import Envelope

NAME: Final = "tau"


def recognise(line: Line) -> bool:
    return {"turns", "success"} <= line.keys()


def items(line: Line, beside: Beside) -> Iterable[Item]:
    trace_id = str(line["trace_id"])
    failures = (line.get("annotation") or {}).get("failures", ())
    faulty = {int(failure["step"]) for failure in failures}
    policy = beside(str(line["policy"])) if line.get("policy") else None
    for border in borders_of(blocks_of(line["turns"])):
        block = border.block
        context: dict[str, Any] = {"earlier": [*earlier_turns(border.earlier)]}
        if policy:
            context = {"policy": policy, **context}
        yield Item(
            name=f"{trace_id} step {block.steps[-1]}",
            document=payload(block.agent, border.after.agent, "tool_exchange", _data(block)),
            label=Label(_faulty(block, faulty, succeeded=line["success"] is True)),
            envelope=Envelope(context=context, trace_id=trace_id, step=block.steps[-1]),
        )


def _data(block: Block) -> dict[str, Any]:
    """Return the text of the block and the arguments of its tool calls."""
    data: dict[str, Any] = {"text": block.text} if block.text.strip() else {}
    if block.calls:
        data["arguments"] = [_arguments(call) for call in block.calls]
    return data


def _arguments(call: dict[str, Any]) -> Any:
    """Return the arguments of a call, parsed where they are JSON text."""
    given = call.get("arguments", call.get("function", {}).get("arguments"))
    if not isinstance(given, str):
        return given
    try:
        return orjson.loads(given)
    except orjson.JSONDecodeError:
        return given


def _faulty(block: Block, named: set[int], *, succeeded: bool) -> bool | None:
    if named.intersection(block.steps):
        return True
    return False if succeeded else None
