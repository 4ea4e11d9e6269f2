"""A document as a bounded tree for a page, with each issue at its place."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.dashboard.places import Found, Spot, anchor
from handoffaudit.dashboard.readable import cut, readable
from handoffaudit.validation.paths import dotted, pointer
from handoffaudit.validation.text import clean

FIELDS_SHOWN = 40
ENTRIES_SHOWN = 12
TEXT_SHOWN = 400
TEXT_WHEN_SCARCE = 80
TEXT_PIECE = 20_000
_KEY_SHOWN = 80
_UNFOLDED = 2


class PartNotFoundError(Exception):
    """The document has no part under that address."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a document one answer may show."""

    nodes: int = 200
    characters: int = 24_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries left out: `count` of them from position `start` of the part `path`."""

    path: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Missing:
    """A place that an issue names and the document does not have."""

    label: str
    anchor: str
    issues: list[Found]


@dataclass(slots=True)
class Node:
    """A value. `path` is its address among the parts: the positions on the way to it, `0.3.12`.

    `text` is a value that is neither object nor list, without its last `cut` characters; `size` is the number of
    entries, or of characters; `position` stands for the label in a list.
    """

    label: str
    path: str
    anchor: str
    kind: str
    text: str = ""
    cut: int = 0
    size: int = 0
    position: int | None = None
    issues: list[Found] = field(default_factory=list)
    children: "list[Node | Gap | Missing]" = field(default_factory=list)
    found_below: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it stands unfolded: what has findings below always does."""
        return self.found_below > 0 or self.path.count(".") < _UNFOLDED

    @property
    def is_container(self) -> bool:
        return self.kind in ("object", "list")

    @property
    def brackets(self) -> str:
        return "{ }" if self.kind == "object" else "[ ]"

    @property
    def holds(self) -> str:
        singular, plural = ("field", "fields") if self.kind == "object" else ("entry", "entries")
        return f"{self.size:,} {singular if self.size == 1 else plural}"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to write of a tree: `open` and `close` around the children of a node, `leaf`, `gap`, `missing`.

    A document nests deeper than templates can include themselves.
    """

    kind: str
    of: Node | Gap | Missing


def steps(root: Node) -> Iterator[Step]:
    """All below the root."""
    waiting: list[Step | Node | Gap | Missing] = list(reversed(root.children))
    while waiting:
        match waiting.pop():
            case Step() as step:
                yield step
            case Gap() as gap:
                yield Step("gap", gap)
            case Missing() as missing:
                yield Step("missing", missing)
            case Node() as node if node.children:
                yield Step("open", node)
                waiting.append(Step("close", node))
                waiting.extend(reversed(node.children))
            case Node() as node:
                yield Step("leaf", node)


@dataclass(frozen=True, slots=True)
class _Open:
    """A container that is still to be filled."""

    node: Node
    value: Any
    location: tuple[str | int, ...]
    spot: Spot
    start: int = 0


def tree(value: Any, spots: Spot | None = None, *, bounds: Bounds = Bounds(), path: str = "", start: int = 0) -> Node:
    """The part `path` of a document, its entries from `start` on.

    What an issue is about is always shown; the rest level by level, while the bounds allow it.
    """
    location, part = _part(value, path)
    builder = _Builder(bounds)
    spot = spots or Spot()
    if path:
        spot = _spot_at(spot, location)
    root = builder.node(part, location, path, spot, label="")
    builder.fill(_Open(root, part, location, spot, start))
    return root


def text_piece(value: Any, path: str, start: int) -> tuple[str, int, int]:
    """A piece of the text at `path` from `start`, where the next begins (0: nowhere), and the length of all of it."""
    _, part = _part(value, path)
    if not isinstance(part, str):
        raise PartNotFoundError(path)
    end = start + TEXT_PIECE
    return readable(part[start:end]), end if end < len(part) else 0, len(part)


def place_of(value: Any, path: str) -> str:
    """The part's place as people read it; empty for the whole."""
    return readable(dotted(tuple(clean(key) if isinstance(key, str) else key for key in _part(value, path)[0])))


def is_text(value: Any, path: str) -> bool:
    return isinstance(_part(value, path)[1], str)


def _part(value: Any, path: str) -> tuple[tuple[str | int, ...], Any]:
    location: tuple[str | int, ...] = ()
    for step in path.split(".") if path else ():
        if not (step.isascii() and step.isdigit() and len(step) < 9) or not isinstance(value, dict | list):
            raise PartNotFoundError(path)
        if int(step) >= len(value):
            raise PartNotFoundError(path)
        key: str | int = list(value)[int(step)] if isinstance(value, dict) else int(step)
        location, value = (*location, key), value[key]  # type: ignore[index]
    return location, value


def _spot_at(spot: Spot, location: Sequence[str | int]) -> Spot:
    for part in location:
        spot = spot.below.get(clean(str(part)), Spot())
    return spot


class _Builder:
    def __init__(self, bounds: Bounds) -> None:
        self.nodes_left = bounds.nodes
        self.characters_left = bounds.characters
        self.queue: deque[_Open] = deque()

    def node(
        self,
        value: Any,
        location: tuple[str | int, ...],
        path: str,
        spot: Spot,
        *,
        label: str,
        position: int | None = None,
    ) -> Node:
        self.nodes_left -= 1
        kind, text, left_out = self._shown(value)
        cleaned = tuple(clean(part) if isinstance(part, str) else part for part in location)
        return Node(
            label=label,
            path=path,
            anchor=anchor(pointer(cleaned)),
            kind=kind,
            text=text,
            cut=left_out,
            size=len(value) if isinstance(value, dict | list | str) else 0,
            position=position,
            issues=spot.issues,
            found_below=sum(1 for _ in spot.every()) - len(spot.issues) if spot.below else 0,
        )

    def _shown(self, value: Any) -> tuple[str, str, int]:
        """The kind of a value, its text, and how many characters of it are left out."""
        match value:
            case dict():
                return "object", "", 0
            case list():
                return "list", "", 0
            case str():
                length = TEXT_SHOWN if self.characters_left > 0 else TEXT_WHEN_SCARCE
                self.characters_left -= min(len(value), length)
                return "string", cut(value, length), max(len(value) - length, 0)
            case bool() | None:
                return "constant", json.dumps(value), 0
            case _:
                return "number", cut(json.dumps(value), TEXT_SHOWN), 0

    def fill(self, first: _Open) -> None:
        self.queue.append(first)
        while self.queue:
            self._fill(self.queue.popleft())

    def _fill(self, part: _Open) -> None:
        if not isinstance(part.value, dict | list):
            part.node.children.extend(_missing(part, set()))
            return
        keys = list(part.value) if isinstance(part.value, dict) else range(len(part.value))
        by_name = _positions(part.spot, keys)
        # entries of a list are alike; who asks for the rest gets more of them at once
        most = ENTRIES_SHOWN if isinstance(part.value, list) and not part.start else FIELDS_SHOWN
        room = max(min(most, self.nodes_left), 0)
        shown = {*range(part.start, min(part.start + room, len(keys)))}
        shown |= {position for position in by_name.values() if position >= part.start}
        following = part.start
        for position in sorted(shown):
            if position > following:
                part.node.children.append(Gap(part.node.path, following, position - following))
            part.node.children.append(self._child(part, keys[position], position))
            following = position + 1
        if following < len(keys):
            part.node.children.append(Gap(part.node.path, following, len(keys) - following))
        if part.start == 0:
            part.node.children.extend(_missing(part, set(by_name)))

    def _child(self, part: _Open, key: str | int, position: int) -> Node:
        spot = part.spot.below.get(clean(str(key)), _NOTHING)
        path = f"{part.node.path}.{position}" if part.node.path else str(position)
        location = (*part.location, key)
        value = part.value[key]
        label = cut(key, _KEY_SHOWN) if isinstance(key, str) else str(key)
        child = self.node(value, location, path, spot, label=label, position=position if isinstance(key, int) else None)
        if spot.below or (isinstance(value, dict | list) and value):
            self.queue.append(_Open(child, value, location, spot))
        return child


_NOTHING = Spot()


def _positions(spot: Spot, keys: Sequence[str | int]) -> dict[str, int]:
    """Where the entries stand that issues are at or below."""
    if not spot.below:
        return {}
    # the verdict's keys were cut and cleaned to be storable
    return {name: at for at, key in enumerate(keys) if (name := clean(str(key))) in spot.below}


def _missing(part: _Open, present: set[str]) -> list[Missing]:
    found = []
    for name, spot in part.spot.below.items():
        if name not in present:
            issues = list(spot.every())
            found.append(Missing(cut(name, _KEY_SHOWN), issues[0].anchor, issues))
    return found
