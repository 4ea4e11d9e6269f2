"""A line of a file becomes a submission with an id, the same one each time the file is read."""

import hashlib
import sqlite3
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from handoffaudit.cli.importing.files import is_json

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.json.Encoder()
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class Item:
    """`sent` is the submission as the API takes it; or, where `raw`, the bytes of a document that is not JSON, which
    stands without its envelope (`beside`)."""

    number: int
    handoff_id: str
    sent: bytes
    raw: bool = False
    beside: dict[str, Any] = field(default_factory=dict)


class Occurrences:
    """Counts equal lines, so that two of them stay two. Kept on disk where it grows, not in memory."""

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
        given = _text(fields.get("handoff_id")) or _own_id(fields["document"])
        handoff_id = given or _derived(line, occurrences)
        fields.setdefault("handoff_id", msgspec.Raw(orjson.dumps(handoff_id)))
        return Item(number, handoff_id, _ENCODER.encode(fields))
    if "raw" in fields and (raw := _text(fields.pop("raw"), longest=None)) is not None:
        return Item(number, _derived(line, occurrences), raw.encode(), raw=True, beside=_loaded(fields))
    handoff_id = _text(fields.get("handoff_id")) or _derived(line, occurrences)
    if not fields and not is_json(line):
        return Item(number, handoff_id, line, raw=True)
    bare = {"document": msgspec.Raw(line), "handoff_id": msgspec.Raw(orjson.dumps(handoff_id))}
    return Item(number, handoff_id, _ENCODER.encode(bare))


def _own_id(document: msgspec.Raw) -> str:
    try:
        return _text(_FIELDS.decode(document).get("handoff_id")) or ""
    except _BROKEN:
        return ""


def _text(value: msgspec.Raw | None, longest: int | None = LONGEST_ID) -> str | None:
    """The text that the JSON value is; None where it is something else, or can be no id."""
    if value is None:
        return None
    try:
        text = orjson.loads(memoryview(value))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(text, str) or (longest and not (0 < len(text) <= longest and text.isprintable())):
        return None
    return text


def _derived(line: bytes, occurrences: Occurrences) -> str:
    digest = hashlib.sha256(line)
    return f"import-{digest.hexdigest()[:40]}-{occurrences.count(digest.digest())}"


def _loaded(fields: dict[str, msgspec.Raw]) -> dict[str, Any]:
    """The readable fields; a field that is not is left out, since the document beside it is what counts."""
    loaded: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            loaded[name] = orjson.loads(memoryview(value))
        except orjson.JSONDecodeError:
            continue
    return loaded
