"""The parts of a document's tree, and the order in which a template writes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from handoffaudit.dashboard.places import Found

_UNFOLDED = 2


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
