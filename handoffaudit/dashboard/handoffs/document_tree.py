"""A document as a bounded tree for a page, with each finding at its place."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.dashboard.handoffs.verdict_findings import Finding, Spot, anchor
from handoffaudit.dashboard.safe_text import cut, readable, weight
from handoffaudit.validation.paths import dotted_path, pointer
from handoffaudit.validation.text import clean


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries that are left out: `count` entries of the part `path`, from position `start` on.

    `is_folded` is true if the part is folded and the gap stands for all of its entries. The page loads the entries when
    the reader unfolds the part.
    """

    path: str
    start: int
    count: int
    is_folded: bool = False

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class Missing:
    """A place that a finding names and that the document does not have."""

    label: str
    anchor: str
    issues: list[Finding]


@dataclass(slots=True)
class Node:
    """A value in the tree; `path` holds the positions on the way to the value, such as `0.3.12`.

    `text` is a value that is neither an object nor a list, without its last `cut` characters. `size` is the
    number of entries, or of characters. `position` replaces the label in a list. `is_wanted` is true for the
    place that the address asks for. `issues` holds the findings at this place that are on the shown page of the list of
    findings. `found_unmarked` counts the other findings at this place. `found_below` counts all findings below this
    place.
    """

    label: str
    path: str
    anchor: str
    kind: str
    text: str = ""
    cut: int = 0
    size: int = 0
    position: int | None = None
    issues: list[Finding] = field(default_factory=list)
    children: "list[Node | Gap | Missing]" = field(default_factory=list)
    found_below: int = 0
    found_unmarked: int = 0
    is_open: bool = False
    is_wanted: bool = False

    @property
    def pieces(self) -> list[tuple[str, bool]]:
        """Return the text in pieces, each with whether an LLM doubts the piece."""
        quotes = sorted({issue.quote for issue in self.issues} - {""}, key=len, reverse=True)
        if not quotes or self.kind != "string":
            return [(self.text, False)]
        parts = re.split("(" + "|".join(map(re.escape, quotes)) + ")", self.text)
        return [(part, bool(at % 2)) for at, part in enumerate(parts) if part]

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
    """One step of writing a tree.

    The kinds `open` and `close` stand before and after the children of a node. A `leaf` is a node without children. The
    kinds `gap` and `missing` stand for a `Gap` and a `Missing`. The steps are a flat sequence, because a document can
    be nested too deep for a recursive template.
    """

    kind: str
    of: Node | Gap | Missing


def steps(root: Node) -> Iterator[Step]:
    """Yield the steps for all nodes below the root."""
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


FIELDS_SHOWN = 40

ENTRIES_SHOWN = 12

TEXT_SHOWN = 400

TEXT_WHEN_SCARCE = 24

TEXT_PIECE = 10_000

_KEY_SHOWN = 80


class PartNotFoundError(Exception):
    """The document has no part at that path."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a document one response may show.

    Past `weight`, in bytes on the page, texts and keys are cut short. `unfolded` is the number of levels that
    are open at first. `fills_folded` is true if the response includes the content of folded parts;
    otherwise the content is sent when the reader unfolds a part. `only_found` limits every level to the
    entries that lead to findings or to the place that the address asks for.
    """

    nodes: int = 200
    weight: int = 30_000
    unfolded: int = 2
    fills_folded: bool = True
    only_found: bool = False


@dataclass(frozen=True, slots=True)
class _Open:
    """A container whose entries from `start` to before `end` (None: to the last one) are still to be added."""

    node: Node
    value: Any
    location: tuple[str | int, ...]
    spot: Spot
    counted: Spot
    start: int = 0
    end: int | None = None


def tree(
    value: Any,
    spots: Spot | None = None,
    *,
    counted: Spot | None = None,
    bounds: Bounds = Bounds(),
    path: str = "",
    start: int = 0,
    end: int | None = None,
) -> Node:
    """Return the tree of the part `path` of a document, with its entries from `start` to before `end`.

    The places of findings are always shown, and the rest level by level within the bounds. If `spots` holds only some
    of the findings, `counted` holds all of them, and the tree counts these. Raise `PartNotFoundError` if there is no
    such part.
    """
    location, part = _part(value, path)
    builder = _Builder(bounds, len(location))
    spot = _spot_at(spots or Spot(), location)
    every = spot if counted is None else _spot_at(counted, location)
    root = builder.node(part, location, path, spot, every)
    builder.fill(_Open(root, part, location, spot, every, start, end))
    return root


def text_piece(value: Any, path: str, start: int) -> tuple[str, int, int]:
    """Return a piece of the text at `path`, the start of the next piece (0: none), and the full length.

    Raise `PartNotFoundError` if there is no text at `path`.
    """
    _, part = _part(value, path)
    if not isinstance(part, str):
        raise PartNotFoundError(path)
    end = start + TEXT_PIECE
    return readable(part[start:end]), end if end < len(part) else 0, len(part)


def place_of(value: Any, path: str) -> str:
    """Return the part's place in readable form; an empty string for the whole document.

    Raise `PartNotFoundError` if there is no such part.
    """
    return readable(dotted_path(_clean_location(_part(value, path)[0])))


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


def _clean_location(location: Sequence[str | int]) -> tuple[str | int, ...]:
    return tuple(clean(part) if isinstance(part, str) else part for part in location)


def _shorten_value(value: Any, length: int) -> tuple[str, str, int]:
    """Return the kind of a value, its text up to `length` characters, and how many characters are left out."""
    match value:
        case dict():
            return "object", "", 0
        case list():
            return "list", "", 0
        case str():
            return "string", cut(value, length), max(len(value) - length, 0)
        case bool() | None:
            return "constant", json.dumps(value), 0
        case _:
            return "number", cut(json.dumps(value), TEXT_SHOWN), 0


class _Builder:
    def __init__(self, bounds: Bounds, root_depth: int) -> None:
        self.bounds = bounds
        self.deepest_open = root_depth + bounds.unfolded
        self.nodes_left = bounds.nodes
        self.weight_left = bounds.weight
        self.queue: deque[_Open] = deque()

    def node(self, value: Any, location: tuple[str | int, ...], path: str, spot: Spot, counted: Spot) -> Node:
        self.nodes_left -= 1
        is_scarce = self.weight_left <= 0
        kind, text, left_out = _shorten_value(value, TEXT_WHEN_SCARCE if is_scarce else TEXT_SHOWN)
        last = location[-1] if location else ""
        leads = spot.leads or any(True for below in spot.below.values() for _ in below.every())
        node = Node(
            label=cut(str(last), TEXT_WHEN_SCARCE if is_scarce else _KEY_SHOWN),
            path=path,
            anchor=""
            if is_scarce and not spot.issues and not spot.is_wanted
            else anchor(pointer(_clean_location(location))),
            kind=kind,
            text=text,
            cut=left_out,
            size=len(value) if isinstance(value, dict | list | str) else 0,
            position=last if isinstance(last, int) else None,
            issues=spot.issues,
            found_below=_count_kinds(issue for below in counted.below.values() for issue in below.every()),
            found_unmarked=_count_kinds(counted.issues) - _count_kinds(spot.issues),
            is_open=len(location) <= self.deepest_open or leads or spot.is_wanted,
            is_wanted=spot.is_wanted,
        )
        # The page writes each anchor twice, as an id and as a link. It also writes the label of a container twice.
        labels = weight(node.label) * (2 if node.is_container else 1)
        self.weight_left -= labels + weight(node.text) + 2 * len(node.anchor)
        return node

    def fill(self, first: _Open) -> None:
        self.queue.append(first)
        while self.queue:
            self._fill(self.queue.popleft())

    def _fill(self, part: _Open) -> None:
        if not isinstance(part.value, dict | list):
            part.node.children.extend(_list_missing(part, set()))
            return
        keys = list(part.value) if isinstance(part.value, dict) else range(len(part.value))
        end = len(keys) if part.end is None else min(part.end, len(keys))
        by_name = _positions(part.spot, keys)
        room = self._room(part)
        if not room and not part.spot.below and not part.spot.is_wanted:
            # No entry of the node could be shown, so the node starts folded and the reader can unfold it.
            part.node.is_open = False
        shown = {*range(part.start, min(part.start + room, end))}
        shown |= {position for position in by_name.values() if part.start <= position < end}
        self._write(part, keys, sorted(shown), end)
        if part.start == 0:
            part.node.children.extend(_list_missing(part, set(by_name)))

    def _write(self, part: _Open, keys: Sequence[str | int], shown: Sequence[int], end: int) -> None:
        """Add the entries at the positions `shown` to the node, and a gap wherever entries are left out."""
        following = part.start
        for position in shown:
            if position > following:
                part.node.children.append(Gap(part.node.path, following, position - following))
            part.node.children.append(self._child(part, keys[position], position))
            following = position + 1
        if following < end:
            is_folded = not following and not part.node.is_open
            part.node.children.append(Gap(part.node.path, following, end - following, is_folded))

    def _room(self, part: _Open) -> int:
        """Return how many entries of the part may be shown, besides the places of findings."""
        if self.bounds.only_found or not (part.node.is_open or self.bounds.fills_folded):
            return 0
        # The entries of a list are alike, so a list starts short; a request for the rest returns more entries.
        most = ENTRIES_SHOWN if isinstance(part.value, list) and not part.start else FIELDS_SHOWN
        return most if part.spot.is_wanted else max(min(most, self.nodes_left), 0)

    def _child(self, part: _Open, key: str | int, position: int) -> Node:
        name = clean(str(key))
        spot, counted = part.spot.below.get(name, _NOTHING), part.counted.below.get(name, _NOTHING)
        path = f"{part.node.path}.{position}" if part.node.path else str(position)
        location = (*part.location, key)
        value = part.value[key]
        child = self.node(value, location, path, spot, counted)
        if spot.below or (isinstance(value, dict | list) and value):
            self.queue.append(_Open(child, value, location, spot, counted))
        return child


def _count_kinds(issues: Iterable[Finding]) -> int:
    """Count the findings; findings of one place with the same rule code and severity count once."""
    return len({(issue.pointer, issue.code, issue.severity) for issue in issues})


_NOTHING = Spot()


def _positions(spot: Spot, keys: Sequence[str | int]) -> dict[str, int]:
    """Return the positions of the entries that have findings at or below them."""
    if not spot.below:
        return {}
    # The verdict cuts and cleans keys to make them storable, so the keys here are cleaned before the comparison.
    return {name: at for at, key in enumerate(keys) if (name := clean(str(key))) in spot.below}


def _list_missing(part: _Open, present: set[str]) -> list[Missing]:
    found = []
    for name, spot in part.spot.below.items():
        if name not in present:
            issues = list(spot.every())
            if not issues:
                continue
            found.append(Missing(cut(name, _KEY_SHOWN), issues[0].anchor, issues))
    return found
