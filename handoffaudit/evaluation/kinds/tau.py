"""Customer service under a written policy: customer, agent and tools hand over to each other, with the outcome.

The handoffs of a run that succeeded are sound. Of one that failed only the steps that people named are known.
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
    """What was said, and the arguments of the tools that were called."""
    data: dict[str, Any] = {"text": block.text} if block.text.strip() else {}
    if block.calls:
        data["arguments"] = [_arguments(call) for call in block.calls]
    return data


def _arguments(call: dict[str, Any]) -> Any:
    """A call's arguments, which are JSON in a text where they come as the model wrote them."""
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
