"""An import as the pages show it: where it stands, and what it brought."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from django.utils import timezone

from handoffaudit.dashboard.diagnostics.log_rows import KIND_NAMES
from handoffaudit.dashboard.readable import cut, readable
from handoffaudit.diagnostics.logs.search import FoundLine
from handoffaudit.diagnostics.models import LogImport
from handoffaudit.validation.logs.lines import Kind
from handoffaudit.validation.text import pluralize

# By then a worker has begun, where there is one.
LATE = timedelta(seconds=30)
# Of a bad line, which may have 64 KB.
MOST_TEXT = 500
NOTES = {
    Kind.HEALTH: "agent=… phase=…",
    Kind.OLDER: "… | phase=…",
    Kind.GATE: "[time] [event] …",
    Kind.TRACE: "JSON",
    Kind.BAD: "in no known format",
}


@dataclass(frozen=True, slots=True)
class KindFigure:
    name: str
    note: str
    number: int
    query: str


@dataclass(frozen=True, slots=True)
class ShownImport:
    """`unstored`: how many of its bytes wait for a worker that stores their lines."""

    row: LogImport
    unstored: int = 0

    @property
    def name(self) -> str:
        return readable(self.row.source)

    @property
    def sent_by(self) -> str:
        return readable(self.row.sent_by)

    @property
    def new(self) -> int:
        return max(self.row.lines - self.row.known, 0)

    @property
    def broke_off(self) -> bool:
        return bool(self.row.error) and not self.row.received_at

    @property
    def under_way(self) -> bool:
        return bool(self.unstored) or (not self.row.finished_at and not self.broke_off)

    @property
    def stored(self) -> int:
        return self.row.size - self.unstored

    @property
    def percent(self) -> int:
        """Of its bytes while lines are stored, then of its new lines; 100 only when all are read."""
        if self.unstored:
            return 100 * self.stored // self.row.size
        return min(99, 100 * self.done // self.new) if self.new else 0

    @property
    def done(self) -> int:
        """New lines that were looked at, bad ones too."""
        return self.row.read + self.row.bad

    @property
    def late(self) -> bool:
        received = self.row.received_at
        return bool(self.under_way and not self.done and received and timezone.now() - received > LATE)

    @property
    def state(self) -> str:
        if self.unstored:
            return "being stored"
        if self.broke_off:
            return "broken off"
        if self.row.finished_at:
            return "read in part" if self.row.error else "read"
        return "being read" if self.row.received_at else "being stored"

    @property
    def tone(self) -> str:
        return {"broken off": "bad", "read in part": "wait", "read": "good"}.get(self.state, "quiet")

    @property
    def icon(self) -> str:
        return {"broken off": "error", "read in part": "warning", "read": "passed"}.get(self.state, "validating")

    @property
    def told(self) -> str:
        """Read out when it ends."""
        if self.under_way:
            return ""
        return self.row.error or f"All read: {pluralize(self.new, 'new line')}, {self.row.bad:,} bad."

    @property
    def query(self) -> str:
        return urlencode({"source": self.row.source})

    @property
    def kinds(self) -> Iterator[KindFigure]:
        numbers = {Kind.BAD.value: self.row.bad} | self.row.kinds
        for kind, note in NOTES.items():
            query = urlencode({"source": self.row.source, "kind": kind.value})
            yield KindFigure(KIND_NAMES[kind], note, numbers.get(kind.value, 0), query)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line in no known format: where it stands, what is wrong with it, and the line itself, made safe to look at."""

    number: int
    why: str
    text: str

    @classmethod
    def of(cls, found: FoundLine) -> "BadRow":
        return cls(found.number, readable(found.why), cut(found.text, MOST_TEXT))
