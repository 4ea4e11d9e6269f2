"""Failed group chats of agents, with the step of the decisive mistake.

Only the handoff with the mistake is faulty, and only handoffs before it are sound. Later handoffs have no label: all
these chats failed, so later handoffs may carry the mistake on.
"""

from collections.abc import Iterable
from typing import Final

from handoffaudit.evaluation.items import Beside, Item, Label, Line, Mistake, payload
from handoffaudit.evaluation.kinds.turns import Block, blocks_of, borders_of, earlier_turns
from handoffaudit.validation.record import Envelope

NAME: Final = "whowhen"


def recognise(line: Line) -> bool:
    return {"turns", "mistake_step"} <= line.keys()


def items(line: Line, beside: Beside) -> Iterable[Item]:
    trace_id, mistake = str(line["trace_id"]), int(line["mistake_step"])
    for border in borders_of(blocks_of(line["turns"])):
        block, last = border.block, border.block.turns[-1]
        chain = (*(one.agent for one in border.earlier), block.agent)
        yield Item(
            name=f"{trace_id} step {block.steps[-1]}",
            document=payload(
                block.agent, str(last.get("to") or border.after.agent), str(last["kind"]), {"text": block.text}, chain
            ),
            label=Label(_faulty(block, mistake), mistake=_mistake(line, block, mistake)),
            envelope=Envelope(
                context={"question": line["question"], "earlier": earlier_turns(border.earlier)},
                trace_id=trace_id,
                step=block.steps[-1],
            ),
        )


def _faulty(block: Block, mistake: int) -> bool | None:
    if mistake in block.steps:
        return True
    return False if block.steps[-1] < mistake else None


def _mistake(line: Line, block: Block, mistake: int) -> Mistake:
    return Mistake(
        distance=min(abs(step - mistake) for step in block.steps),
        by_culprit=block.agent == line.get("mistake_agent"),
        group=str(line.get("split") or ""),
    )
