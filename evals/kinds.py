"""The kinds of public corpora, and their conversion to labelled handoffs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import sha256
from itertools import groupby, pairwise
from typing import Any
from uuid import UUID

import orjson

from handoffaudit.evaluation.items import KINDS as PRODUCT_KINDS
from handoffaudit.evaluation.items import Beside, Item, Kind, Kinds, Label, Line, payload
from handoffaudit.validation.claims import Source
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.tokenizers import estimate
from handoffaudit.validation.tool_results import capture, label_of, sources_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLabel(Label):
    """The label of a handoff in a failed trace, with its distance from the decisive mistake.

    `distance` is a number of steps: 0 for the handoff with the mistake. If a second team annotated the trace, too,
    `either_distance` is the distance from the nearest mistake of both annotations; otherwise `either_distance` equals
    `distance`. `by_culprit` is true if the source agent made the mistake. `group` names the part of the corpus that
    contains the trace.
    """

    distance: int
    either_distance: int
    by_culprit: bool
    group: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """The adjacent turns of one agent, with their text and their step numbers."""

    agent: str
    text: str
    steps: tuple[int, ...]
    turns: tuple[dict[str, Any], ...]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return the unchanged tool calls of all turns, in order."""
        return [call for turn in self.turns for call in turn.get("tool_calls") or ()]


def blocks_of(turns: Iterable[dict[str, Any]]) -> list[Block]:
    return [_block(agent, tuple(group)) for agent, group in groupby(turns, lambda turn: str(turn["agent"]))]


def _block(agent: str, turns: tuple[dict[str, Any], ...]) -> Block:
    text = "\n".join(str(turn.get("content") or "") for turn in turns)
    return Block(agent, text, tuple(int(turn["step"]) for turn in turns), turns)


@dataclass(frozen=True, slots=True)
class Border:
    """The handoff from `block` to the next block, `after`, with the blocks before `block`."""

    block: Block
    after: Block
    earlier: tuple[Block, ...]


def borders_of(blocks: list[Block]) -> Iterator[Border]:
    for position, (block, after) in enumerate(pairwise(blocks)):
        yield Border(block, after, tuple(blocks[:position]))


def earlier_turns(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Return earlier blocks as a context.

    The context includes the tool calls, because some values occur only in their arguments.
    """
    return [_context_of(block) for block in blocks]


def _context_of(block: Block) -> dict[str, Any]:
    context: dict[str, Any] = {"agent": block.agent, "text": block.text}
    return {**context, "tool_calls": block.calls} if block.calls else context


def is_whowhen(line: Line) -> bool:
    return {"turns", "mistake_step"} <= line.keys()


def whowhen_items(line: Line, beside: Beside) -> Iterable[Item]:
    """Return the handoffs of a failed group chat of agents, with the step of the decisive mistake.

    Only the handoff with the mistake is faulty, and only earlier handoffs are sound. Later handoffs have no label,
    because all these chats failed: a later handoff may repeat the mistake.
    """
    trace_id, mistake = str(line["trace_id"]), int(line["mistake_step"])
    for border in borders_of(blocks_of(line["turns"])):
        block, last = border.block, border.block.turns[-1]
        chain = (*(one.agent for one in border.earlier), block.agent)
        yield Item(
            name=f"{trace_id} step {block.steps[-1]}",
            document=payload(
                block.agent, str(last.get("to") or border.after.agent), str(last["kind"]), {"text": block.text}, chain
            ),
            label=_label(line, block, mistake),
            envelope=Envelope(
                context={"question": line["question"], "earlier": earlier_turns(border.earlier)},
                trace_id=trace_id,
                step=block.steps[-1],
            ),
        )


def _holds_mistake(block: Block, mistake: int) -> bool | None:
    if mistake in block.steps:
        return True
    return False if block.steps[-1] < mistake else None


def _label(line: Line, block: Block, mistake: int) -> TraceLabel:
    second = (line.get("second_annotation") or {}).get("failures", ())
    mistakes = [mistake, *(int(failure["step"]) for failure in second if failure["is_root_cause"])]
    distances = [min(abs(step - one) for step in block.steps) for one in mistakes]
    return TraceLabel(
        _holds_mistake(block, mistake),
        distance=distances[0],
        either_distance=min(distances),
        by_culprit=block.agent == line.get("mistake_agent"),
        group=str(line.get("split") or ""),
    )


def is_tau(line: Line) -> bool:
    return {"turns", "success"} <= line.keys()


def tau_items(line: Line, beside: Beside) -> Iterable[Item]:
    """Return the handoffs of a customer service run: between customer, agent and tools, under a written policy.

    The handoffs of a successful run are sound. In a failed run, a handoff is faulty if the annotators named one of its
    steps; all other handoffs have no label.
    """
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
            label=Label(_is_named(block, faulty, succeeded=line["success"] is True)),
            envelope=Envelope(context=context, trace_id=trace_id, step=block.steps[-1]),
        )


class Given(StrEnum):
    """The way in which the judge of an agent's answers gets the tool results."""

    NONE = "none"
    CONTEXT = "context"
    EVIDENCE = "evidence"


def tau_answers(line: Line, beside: Beside, *, given: Given) -> Iterable[Item]:
    """Return the answers of the agent to the customer in a customer service run.

    The context holds the policy and the messages of the customer. `given` decides where the tool results are: in the
    context, in the evidence of the trace, or nowhere.
    """
    trace_id = str(line["trace_id"])
    succeeded = line["success"] is True
    faulty = {int(failure["step"]) for failure in (line.get("annotation") or {}).get("failures", ())}
    policy = beside(str(line["policy"])) if line.get("policy") else None
    blocks = blocks_of(line["turns"])
    results = dict(_results(blocks))
    for border in borders_of(blocks):
        block = border.block
        if (block.agent, border.after.agent) != ("assistant", "user"):
            continue
        known = [results[one.steps[0]] for one in border.earlier if one.steps[0] in results]
        context: dict[str, Any] = {"policy": policy} if policy else {}
        context["customer"] = [one.text for one in border.earlier if one.agent == "user"]
        if given is Given.CONTEXT:
            context["tool_results"] = [text for text, _ in known]
        evidence = tuple(source for _, sources in known for source in sources) if given is Given.EVIDENCE else ()
        yield Item(
            name=f"{trace_id} step {block.steps[-1]}",
            document=payload(block.agent, "user", "answer", _data(block)),
            label=Label(_is_named(block, faulty, succeeded=succeeded)),
            envelope=Envelope(context=context, trace_id=trace_id, step=block.steps[-1]),
            trace_evidence=evidence,
        )


def _results(blocks: list[Block]) -> Iterator[tuple[int, tuple[str, tuple[Source, ...]]]]:
    """Yield the first step of each block of tool results, with the text of the block and the captured sources."""
    for before, block in pairwise(blocks):
        if block.turns[0].get("role") != "tool":
            continue
        arguments = [_arguments(call) for call in before.calls]
        found = capture(block.text, arguments)
        sources = sources_of(label_of(block.agent, f"step-{block.steps[0]}"), found.evidence, found.values)
        yield block.steps[0], (block.text, tuple(sources))


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


def _is_named(block: Block, named: set[int], *, succeeded: bool) -> bool | None:
    if named.intersection(block.steps):
        return True
    return False if succeeded else None


_LONGEST_SUMMARY = 500


def is_task(line: Line) -> bool:
    return "claimed_paths" in line or ("parse_error" in line and "raw" in line)


def task_items(line: Line, beside: Beside) -> Iterable[Item]:
    """Return a work order with its report and the files that the report names.

    A claimed file that never existed makes the report faulty. A claimed file that existed once and is missing now does
    not: somebody may have moved the file after the report.
    """
    if "parse_error" in line:
        raise ValueError("the order has a parse error in the source data")
    claimed = line["claimed_paths"] or []
    yield Item(
        name=str(line["id"]),
        document={"handoff": _handoff(line, [str(path["path"]) for path in claimed])},
        label=Label(any(not path["ever_existed"] for path in claimed) if claimed else None),
        format="universal",
        envelope=Envelope(context=line["context"] if isinstance(line.get("context"), dict) else None),
        files=frozenset(str(path["path"]) for path in claimed if path["exists_now"]),
    )


def _handoff(line: Line, paths: list[str]) -> dict[str, Any]:
    source, target = line["source_agent_id"] or line["created_by"] or "unknown", line["target_agent_id"]
    order = line["data"] if isinstance(line["data"], dict) else {"order": line["data"]}
    summary = str(order.get("title") or line["id"])[:_LONGEST_SUMMARY]
    handoff: dict[str, Any] = {
        "version": "3.0",
        "schema_type": "universal",
        "timestamp": line["created_at"],
        "trace_id": _trace_id(str(line.get("origin_task") or line["id"])),
        "source": {"skill": source, "workflow_id": str(line["id"]), "session_path": ".", "phase": str(line["status"])},
        "target": {"skill": target},
        "context": {"summary": summary, "problem_type": "implementation"},
        "payload": {
            "working": order,
            "session": {"state": {"result": line["result"]}},
            "references": {"files": [{"path": path} for path in paths]},
        },
        "meta": {"confidence": "medium", "handoff_chain": [source]},
    }
    # The format requires a token count, which the data does not have. The conversion adds a correct count, so that the
    # missing count causes no finding.
    return {**handoff, "meta": {**handoff["meta"], "token_count": _token_count(handoff)}}


def _token_count(handoff: dict[str, Any]) -> int:
    return round(estimate(compact({"handoff": handoff}).decode("utf-8", "replace")))


def _trace_id(chain: str) -> str:
    """Return one trace ID for all tasks of a chain. The format requires a UUID of version 4."""
    return str(UUID(bytes=sha256(chain.encode("utf-8", "replace")).digest()[:16], version=4))


KINDS = Kinds(
    (
        *PRODUCT_KINDS.table,
        Kind("whowhen", is_whowhen, whowhen_items),
        Kind("tau", is_tau, tau_items),
        Kind("tasks", is_task, task_items),
    )
)


def kinds_with(given: Given) -> Kinds:
    """Return the kinds, where a customer service run yields only the answers to the customer."""
    answers = Kind("tau", is_tau, partial(tau_answers, given=given))
    return Kinds(tuple(answers if kind.name == "tau" else kind for kind in KINDS.table))
