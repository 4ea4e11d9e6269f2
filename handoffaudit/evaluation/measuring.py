"""A file of labelled data, line by line, into its figures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from handoffaudit.evaluation.figures import Tally
from handoffaudit.evaluation.items import Beside, Item, UnreadableError
from handoffaudit.evaluation.judging import Judge, Judged
from handoffaudit.evaluation.kinds import recognise
from handoffaudit.evaluation.locating import Locating

FIRST = 5
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError)


@dataclass(slots=True)
class Measured:
    """`unread`: why lines could not be used, the first few of `unread_lines`. `wrong`: the first faulty items that were
    missed and sound ones that were flagged. `locating`: where it is asked for, how near flags come to the mistakes of
    whole traces."""

    kind: str = ""
    tally: Tally = field(default_factory=Tally)
    unread: list[str] = field(default_factory=list)
    unread_lines: int = 0
    wrong: list[Judged] = field(default_factory=list)
    locating: Locating | None = None

    def add(self, judged: Judged, show: int = 0) -> None:
        """Counts an item, and keeps it where it is one of the first `show` that were judged wrongly."""
        self.tally.add(judged)
        if self.locating:
            self.locating.add(judged)
        if judged.item.label.faulty not in (None, judged.flagged) and len(self.wrong) < show:
            self.wrong.append(judged)

    def left_out(self, number: int, error: UnreadableError) -> None:
        self.unread_lines += 1
        if len(self.unread) < FIRST:
            self.unread.append(f"line {number} {error}")

    def figures(self) -> dict[str, Any]:
        found = {"kind": self.kind, "unread_lines": self.unread_lines, **self.tally.figures()}
        return found | {"origin": self.locating.figures()} if self.locating else found


def measure(
    lines: Iterable[tuple[int, bytes]],
    judge: Judge,
    *,
    beside: Beside,
    show: int = 0,
    each: Callable[[int], None] = lambda _: None,
    origin: bool = False,
) -> Measured:
    """`lines` with their numbers; `each` hears how many items there were so far. `origin`: whole traces are looked at,
    too."""
    measured = Measured(locating=Locating() if origin else None)
    for number, text in lines:
        try:
            kind, items = read_line(text, beside)
            for item in items:
                measured.add(judge.judge(item), show)
        except UnreadableError as error:
            measured.left_out(number, error)
        else:
            measured.kind = measured.kind or kind
        each(measured.tally.items)
    return measured


def read_line(text: bytes, beside: Beside) -> tuple[str, list[Item]]:
    """The kind of a line and its items; a line that turns out to be broken leaves none of them. Raises
    `UnreadableError`."""
    try:
        line = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"is not JSON: {error.msg}") from error
    kind = recognise(line) if isinstance(line, dict) else None
    if kind is None:
        raise UnreadableError("is no labelled data that is known here")
    try:
        return kind.NAME, list(kind.items(line, beside))
    except _BROKEN as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise UnreadableError(f"can't be used: {why}") from error
