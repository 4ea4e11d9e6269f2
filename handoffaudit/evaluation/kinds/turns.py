"""Turns of a conversation as handoffs: adjacent turns of one agent form a block, and each border is a handoff."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class Block:
    """The adjacent turns of one agent, with their text and the `steps` that number them."""

    agent: str
    text: str
    steps: tuple[int, ...]
    turns: tuple[dict[str, Any], ...]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return the tool calls of all turns, in order, as they were written."""
        return [call for turn in self.turns for call in turn.get("tool_calls") or ()]


def blocks_of(turns: Iterable[dict[str, Any]]) -> list[Block]:
    return [_block(agent, tuple(group)) for agent, group in groupby(turns, lambda turn: str(turn["agent"]))]


def _block(agent: str, turns: tuple[dict[str, Any], ...]) -> Block:
    text = "\n".join(str(turn.get("content") or "") for turn in turns)
    return Block(agent, text, tuple(int(turn["step"]) for turn in turns), turns)


@dataclass(frozen=True, slots=True)
class Border:
    """The handoff from `block` to the block after it, with the earlier blocks."""

    block: Block
    after: Block
    earlier: tuple[Block, ...]


def borders_of(blocks: list[Block]) -> Iterator[Border]:
    for position, (block, after) in enumerate(pairwise(blocks)):
        yield Border(block, after, tuple(blocks[:position]))


def earlier_turns(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Return earlier blocks as a context, with their tool calls: some values are only in the arguments of a call."""
    return [_block_said(block) for block in blocks]


def _block_said(block: Block) -> dict[str, Any]:
    block_said: dict[str, Any] = {"agent": block.agent, "text": block.text}
    return {**block_said, "tool_calls": block.calls} if block.calls else block_said
