"""Items of an import, each with its own id, and the report on what became of the items."""

import hashlib
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from handoffaudit.cli.documents import is_json

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

_ENCODER = msgspec.json.Encoder()

_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class Item:
    """An item of an import.

    `sent` is the submission for the API. If `raw` is set, `sent` is the bytes of a document that is not JSON, and
    `beside` has the fields of the envelope.
    """

    number: int
    handoff_id: str
    sent: bytes
    raw: bool = False
    beside: dict[str, Any] = field(default_factory=dict)


class Occurrences:
    """Counter of equal lines, so that equal lines stay separate handoffs; SQLite moves a large table to disk."""

    def __init__(self) -> None:
        self._kept = sqlite3.connect("", isolation_level=None)
        self._kept.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID")
        self._kept.execute("BEGIN")

    def count(self, digest: bytes) -> int:
        self._kept.execute(
            "INSERT INTO seen VALUES (?, 1) ON CONFLICT (digest) DO UPDATE SET number = number + 1", (digest,)
        )
        (number,) = self._kept.execute("SELECT number FROM seen WHERE digest = ?", (digest,)).fetchone()
        return int(number)


def make_item(number: int, line: bytes, occurrences: Occurrences) -> Item:
    try:
        fields = _FIELDS.decode(line)
    except _BROKEN:
        fields = {}
    if "document" in fields:
        given = _read_text(fields.get("handoff_id")) or _read_own_id(fields["document"])
        handoff_id = given or _derive_id(line, occurrences)
        fields.setdefault("handoff_id", msgspec.Raw(orjson.dumps(handoff_id)))
        return Item(number, handoff_id, _ENCODER.encode(fields))
    if "raw" in fields and (raw := _read_text(fields.pop("raw"), longest=None)) is not None:
        return Item(number, _derive_id(line, occurrences), raw.encode(), raw=True, beside=_load_fields(fields))
    handoff_id = _read_text(fields.get("handoff_id")) or _derive_id(line, occurrences)
    if not fields and not is_json(line):
        return Item(number, handoff_id, line, raw=True)
    bare = {"document": msgspec.Raw(line), "handoff_id": msgspec.Raw(orjson.dumps(handoff_id))}
    return Item(number, handoff_id, _ENCODER.encode(bare))


def _read_own_id(document: msgspec.Raw) -> str:
    try:
        return _read_text(_FIELDS.decode(document).get("handoff_id")) or ""
    except _BROKEN:
        return ""


def _read_text(value: msgspec.Raw | None, longest: int | None = LONGEST_ID) -> str | None:
    """Return the text of a JSON string; None for another type or for a text that can't be an id."""
    if value is None:
        return None
    try:
        text = orjson.loads(memoryview(value))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(text, str) or (longest and not (0 < len(text) <= longest and text.isprintable())):
        return None
    return text


def _derive_id(line: bytes, occurrences: Occurrences) -> str:
    digest = hashlib.sha256(line)
    return f"import-{digest.hexdigest()[:40]}-{occurrences.count(digest.digest())}"


def _load_fields(fields: dict[str, msgspec.Raw]) -> dict[str, Any]:
    """Return the readable fields; unreadable fields are left out, because the document is what matters."""
    loaded: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            loaded[name] = orjson.loads(memoryview(value))
        except orjson.JSONDecodeError:
            continue
    return loaded


LINES_SHOWN = 5

STORED = {200: "already_there", 202: "taken", 422: "rejected"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an item.

    `status` is the status of the API: 202 taken, 200 known already, 422 stored as rejected, anything else refused.
    `codes` are the rule codes of a rejected item; `why` and `remedy` belong to a refused item.
    """

    status: int
    codes: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""


@dataclass(slots=True)
class ReasonCount:
    number: int = 0
    lines: list[str] = field(default_factory=list)
    remedy: str = ""

    def add(self, line: str, remedy: str = "") -> None:
        self.number += 1
        self.remedy = self.remedy or remedy
        if len(self.lines) < LINES_SHOWN:
            self.lines.append(line)


@dataclass(slots=True)
class ImportReport:
    counts: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, ReasonCount] = field(default_factory=dict)
    refused: dict[str, ReasonCount] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def rate(self) -> float:
        return self.total / self.seconds if self.seconds else 0.0

    def add(self, line: str, answer: Answer) -> None:
        kind = STORED.get(answer.status, "refused")
        self.counts[kind] += 1
        if kind == "rejected":
            for code in dict.fromkeys(answer.codes):
                self.rejected.setdefault(code, ReasonCount()).add(line)
        elif kind == "refused":
            self.refused.setdefault(answer.why, ReasonCount()).add(line, answer.remedy)

    def as_json(self) -> dict[str, Any]:
        return {
            "total": self.total,
            **{name: self.counts[name] for name in ("taken", "already_there", "rejected", "refused")},
            "rejected_by_code": {
                code: {"number": one.number, "lines": one.lines} for code, one in self.rejected.items()
            },
            "refused_by_reason": {
                why: {"number": one.number, "lines": one.lines, "remedy": one.remedy}
                for why, one in self.refused.items()
            },
            "seconds": round(self.seconds, 3),
            "per_second": round(self.rate, 1),
        }

    def as_text(self) -> str:
        noun = "document" if self.total == 1 else "documents"
        lines = [f"{self.total:,} {noun} in {self.seconds:,.1f} s ({self.rate:,.0f} a second)"]
        rows = (
            ("taken", ""),
            ("already_there", ""),
            ("rejected", "stored, with what is wrong"),
            ("refused", "not stored"),
        )
        for name, note in rows:
            number = self.counts[name]
            lines.append(f"  {name.replace('_', ' '):<14}{number:>9,}{'  ' + note if number and note else ''}")
            for why, reason in {"rejected": self.rejected, "refused": self.refused}.get(name, {}).items():
                more = ", …" if reason.number > len(reason.lines) else ""
                lines.append(f"      {why}: {reason.number:,} (line {', '.join(reason.lines)}{more})")
                if reason.remedy:
                    lines.append(f"        {reason.remedy}")
        return "\n".join(lines)
