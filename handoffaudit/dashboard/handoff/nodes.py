"""The parts of a document's tree, and the order in which a template writes them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from handoffaudit.dashboard.handoff.places import Found


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries left out: `count` of them from position `start` of the part `path`. `is_folded`: they are all that the
    part has, and it is folded; who unfolds it wants to see them."""

    path: str
    start: int
    count: int
    is_folded: bool = False

    @property
    def end(self) -> int:
        return self.start + self.count


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
    entries, or of characters; `position` stands for the label in a list. `is_wanted`: it is the one that was asked
    for. Of issues on other pages of the list only the numbers are there: `found_unmarked` at it, and those in
    `found_below`.
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
    found_unmarked: int = 0
    is_open: bool = False
    is_wanted: bool = False

    @property
    def pieces(self) -> list[tuple[str, bool]]:
        """The text in runs, and of each whether a model doubts it."""
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
