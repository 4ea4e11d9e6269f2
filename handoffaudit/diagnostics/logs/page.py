"""A page of found lines: where each stands in the order of all lines, and the newest of them in bounded memory."""

import heapq
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from handoffaudit.diagnostics.models import LogBlock
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.validation.loglines import BadLine, Kind, Line, read_bytes

# The lines of one page together, in bytes as they came: read, shown and escaped they take some twenty times as much.
PAGE_BYTES: Final = 1024 * 1024
# A search stops after so long, and says from where to go on.
SEARCH_SECONDS: Final = 2.0
LAST: Final = (1 << 128) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line where it stands. `at` is its own time, None for a bad one; `text` is what it was read from, with what is
    no text replaced."""

    source: str
    number: int
    line: Line
    text: str
    block: uuid.UUID

    @classmethod
    def read(cls, block: LogBlock, index: int, raw: bytes) -> "FoundLine":
        """Read the line of a block at that index, counted from 0."""
        text = raw.decode(errors="replace").rstrip("\r")
        return cls(block.source, block.first_line + index, read_bytes(raw), text, block.pk)

    @property
    def at(self) -> datetime | None:
        return None if isinstance(self.line, BadLine) else self.line.at

    @property
    def kind(self) -> Kind:
        return self.line.kind

    @property
    def why(self) -> str:
        """Of a bad line, what is wrong."""
        return self.line.why if isinstance(self.line, BadLine) else ""


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is the cursor that goes on from here, None where nothing is left. A page may be short, or empty, and have
    a next one: then the search has looked at enough, back to `reached`. `crowded`: at some moment there were more
    blocks than one search looks into, and lines may be missing; a narrower source or time finds them."""

    items: list[FoundLine]
    next: str | None = None
    reached: datetime | None = None
    crowded: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a line stands in the order of all: by time, then by block, then within it. Without an index: after all
    lines of that block at that time."""

    at: datetime
    block: int = LAST
    index: int = LAST

    def __str__(self) -> str:
        micros = (self.at - _EPOCH) // timedelta(microseconds=1)
        return f"{micros:x}.{self.block:x}.{self.index:x}"

    @classmethod
    def read(cls, cursor: str) -> "Place":
        """Read a cursor. Raise `BadFilter` for what is none."""
        try:
            micros, block, index = (int(part, 16) for part in cursor.split("."))
            found = cls(_EPOCH + timedelta(microseconds=micros), block, index)
        except (ValueError, OverflowError):
            found = None
        if found is None or not 0 <= found.block <= LAST:
            remedy = "use the value of `next` from the page before, as it was."
            raise FilterError("cursor", cursor[:40], remedy)
        return found


@dataclass(slots=True)
class Deadline:
    """Until when a search may open another block."""

    seconds: float
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end


@dataclass(slots=True)
class Newest:
    """The newest lines before `start`, at most `limit` of them and `PAGE_BYTES` together (a single line always fits).

    `floor` is the newest line that found no room: nothing at it or below it is kept.
    """

    limit: int
    start: Place | None = None
    floor: Place | None = None
    _held: list[tuple[Place, bytes, LogBlock]] = field(default_factory=list)
    _size: int = 0

    def add(self, place: Place, raw: bytes, block: LogBlock) -> None:
        """Keep a line where it is among the newest."""
        if (self.start and place >= self.start) or (self.floor and place <= self.floor):
            return
        heapq.heappush(self._held, (place, raw, block))
        self._size += len(raw)
        while len(self._held) > self.limit or (self._size > PAGE_BYTES and len(self._held) > 1):
            self.floor, dropped, _ = heapq.heappop(self._held)
            self._size -= len(dropped)

    def is_complete_above(self, frontier: Place) -> bool:
        """Return whether the page is full with lines above the frontier alone, so that no line below it matters."""
        return self.floor is not None and self.floor > frontier

    def page_above(self, frontier: Place, *, crowded: bool) -> Page:
        """Return the page of a search that stopped at the frontier: the lines above the frontier."""
        return Page(self._read(frontier), str(frontier), frontier.at, crowded)

    def page(self, *, crowded: bool) -> Page:
        """Return a page with all that is kept."""
        items = self._read(None)
        last = min(self._held, default=None) if self.floor else None
        return Page(items, str(last[0]) if last else None, last[0].at if last else None, crowded)

    def _read(self, above: Place | None) -> list[FoundLine]:
        chosen = sorted((one for one in self._held if above is None or one[0] > above), reverse=True)
        return [FoundLine.read(block, place.index, raw) for place, raw, block in chosen]
