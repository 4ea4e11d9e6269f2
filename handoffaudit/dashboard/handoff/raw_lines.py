"""A document as it arrived: its lines with their numbers, in parts that a page can show."""

from dataclasses import dataclass

from handoffaudit.dashboard.readable import readable, weight

PART = 20_000
MOST_LINES = 400
_MOST_WEIGHT = 60_000
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class RawPart:
    """Lines from the character `start` on, the first of them of that `number`; `is_cut`: it began before.

    `following` is where the next part begins (0: nowhere), `before` where the one before this may; -1 where there is
    none.
    """

    lines: tuple[str, ...]
    number: int
    start: int
    following: int
    before: int
    length: int
    is_cut: bool

    @property
    def is_whole(self) -> bool:
        return not self.start and not self.following


def raw_part(original: bytes, start: int = 0) -> RawPart:
    """What is not UTF-8 in it is shown as what it is not."""
    text = original.removeprefix(_BOM).decode(errors="replace")
    start = min(start, len(text))
    piece = _piece(text, start)
    end = start + len(piece)
    lines = piece.removesuffix("\n").split("\n")
    return RawPart(
        lines=tuple(map(readable, lines)),
        number=text.count("\n", 0, start) + 1,
        start=start,
        following=end if end < len(text) else 0,
        before=max(start - PART, 0) if start else -1,
        length=len(text),
        is_cut=start > 0 and text[start - 1] != "\n",
    )


def _piece(text: str, start: int) -> str:
    size = PART
    while weight(readable(text[start : start + size])) > _MOST_WEIGHT:
        size //= 2
    piece = text[start : start + size]
    lines = piece.split("\n")
    if len(lines) > MOST_LINES:
        return "\n".join(lines[:MOST_LINES]) + "\n"
    last = piece.rfind("\n") + 1
    # whole lines, where they are not too long for it
    return piece[:last] if start + size < len(text) and last > size // 2 else piece
