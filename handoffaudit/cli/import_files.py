"""`handoffaudit import`: stores the documents of files as handoffs."""

import hashlib
import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec
import orjson

from handoffaudit.cli import Stop
from handoffaudit.cli.documents import Piece, Source, is_json
from handoffaudit.cli.terminal import (
    ProgressBar,
    data_option,
    example,
    json_option,
    printable,
    require_key,
    send_key_option,
    send_url_option,
    tenant_option,
)

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

_ENCODER = msgspec.json.Encoder()

_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

LONGEST_ID = 200

# The server treats a `handoff_id` with one of these values as missing.
_NO_ID = (b"", b"null", b'""')


@dataclass(frozen=True, slots=True)
class Item:
    """One document of an import, with the number of its line or its position in a JSON array.

    `sent` is the submission for the API. If `raw` is true, `sent` is a document that is not JSON, and `beside` has the
    fields that the line gives beside the document. If `alone` is true, the id in `sent` is not usable. The item then
    needs a request of its own, with `handoff_id` in the address.
    """

    number: int
    handoff_id: str
    sent: bytes
    raw: bool = False
    beside: dict[str, Any] = field(default_factory=dict)
    alone: bool = False


class Occurrences:
    """Counter of equal lines. The count is part of the id of a line, so that equal lines become separate handoffs.

    The counts are in a temporary SQLite database, which moves a large table to disk.
    """

    def __init__(self) -> None:
        self._kept = sqlite3.connect("", isolation_level=None)
        self._kept.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID")
        self._kept.execute("BEGIN")

    def count(self, digest: bytes) -> int:
        """Count a line with this digest, and return the number of such lines so far."""
        self._kept.execute(
            "INSERT INTO seen VALUES (?, 1) ON CONFLICT (digest) DO UPDATE SET number = number + 1", (digest,)
        )
        (number,) = self._kept.execute("SELECT number FROM seen WHERE digest = ?", (digest,)).fetchone()
        return int(number)


def split_line(line: bytes) -> list[bytes]:
    """Split a trace export of OpenAI Agents into one line for each handoff. Return any other line unchanged.

    The server could also split the export, but its answers would not show to which line the handoffs belong.
    """
    if b"trace.span" not in line:
        return [line]
    from handoffaudit.validation import json_text
    from handoffaudit.validation.formats import framework, framework_traces

    try:
        fields = _FIELDS.decode(line)
        beside = fields if "document" in fields else {}
        raw = bytes(beside.pop("document", line))
        document = json_text.keep_digits(raw, orjson.loads(raw))
    except (*_BROKEN, orjson.JSONDecodeError):
        return [line]
    is_export = isinstance(document, dict) and framework_traces.is_export(document)
    if not is_export or _read_text(beside.get("format")) not in (None, framework.NAME):
        return [line]
    beside = {name: value for name, value in beside.items() if name not in ("handoff_id", "retry_of")}
    parts = framework_traces.split_export(document)
    if len(parts) <= 1:
        return [line]
    return [_ENCODER.encode({**beside, "document": msgspec.Raw(json_text.compact(part))}) for part in parts]


def make_item(number: int, line: bytes, occurrences: Occurrences) -> Item:
    """Return the item of a line.

    A line is one of three things:

    - a submission with the field `document`
    - an object whose field `raw` holds a document that is not JSON, with the other fields of a submission beside it
    - a document itself, which need not be JSON

    An item without an id gets an id that is derived from the line, so that a second import stores nothing twice.
    """
    try:
        fields = _FIELDS.decode(line)
    except _BROKEN:
        fields = {}
    if "document" in fields:
        given = _read_text(fields.get("handoff_id")) or _read_own_id(fields["document"])
        handoff_id = given or _derive_id(line, occurrences)
        # An invalid id stays unchanged, because the server reports it as a finding.
        if bytes(fields.get("handoff_id", b"")) in _NO_ID:
            fields["handoff_id"] = msgspec.Raw(orjson.dumps(handoff_id))
        return Item(number, handoff_id, _ENCODER.encode(fields), alone=_read_text(fields["handoff_id"]) is None)
    if "raw" in fields and (raw := _read_text(fields.pop("raw"), longest=None)) is not None:
        handoff_id = _read_text(fields.get("handoff_id")) or _derive_id(line, occurrences)
        return Item(number, handoff_id, raw.encode(), raw=True, beside=_load_fields(fields))
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
    """Return the text of a JSON string, or None for another type.

    Also return None for a text that can't be an id: an empty or unprintable text, or one with more than `longest`
    characters. If `longest` is None, return any text.
    """
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
    """Return the fields that can be read. Leave out the others, because they must not prevent the import."""
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

    `status` is the status of the API: 202 stored, 200 stored before, 422 stored as rejected, anything else refused.
    `codes` are the rule codes of a rejected item; `why` and `remedy` belong to a refused item.
    """

    status: int
    codes: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""


@dataclass(slots=True)
class ReasonCount:
    """The number of items with one rule code or one refusal, and the line numbers of the first items."""

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
    """The number of items by result, and the reasons for rejected and refused items."""

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
            ("taken", "new, and stored"),
            ("already_there", "stored before"),
            ("rejected", "stored, with their findings"),
            ("refused", "not stored"),
        )
        for name, note in rows:
            number = self.counts[name]
            lines.append(f"  {name.replace('_', ' '):<14}{number:>9,}{'  ' + note if number and note else ''}")
            for why, reason in {"rejected": self.rejected, "refused": self.refused}.get(name, {}).items():
                more = ", …" if reason.number > len(reason.lines) else ""
                lines.append(f"      {printable(why)}: {reason.number:,} (line {', '.join(reason.lines)}{more})")
                if reason.remedy:
                    lines.append(f"        {printable(reason.remedy)}")
        return "\n".join(lines)


BATCH_ITEMS = 500

BATCH_BYTES = 8 * 1024 * 1024

TOO_LONG = Answer(413, why="413 Document too large", remedy="No line of more than 64 MiB is read.")


class Receiver(Protocol):
    """The destination of an import; `send` returns the answers in the order of the items."""

    def send(self, items: list[Item]) -> list[Answer]: ...
    def close(self) -> None: ...


@click.command(
    name="import", epilog=example("handoffaudit import handoffs.jsonl.gz", "make-handoffs | handoffaudit import -")
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@tenant_option
@data_option
@send_url_option
@send_key_option
@json_option
def command(files: tuple[str, ...], tenant: str, url: str | None, key: str | None, *, as_json: bool) -> None:
    """Import handoffs from files, and report what was stored and what was refused.

    A FILE holds JSON Lines, one JSON document, or a JSON array of documents. A line is a submission, a document
    without the fields of a submission, or an object whose field "raw" holds a document that is not JSON. Gzip is
    recognised, and - is standard input. Broken documents are stored as rejected. To finish an interrupted import, run
    it again: stored handoffs are not stored twice.

    Exits with 0 if everything is stored, with 1 if something was refused or the server failed, and with 2 if a file
    can't be read.
    """
    sources = [Source(path) for path in files]
    receiver = _choose_receiver(tenant, url, key)
    report = ImportReport()
    progress = ProgressBar(sum(source.size for source in sources) if all(source.size for source in sources) else 0)
    began = time.monotonic()
    stopped: Stop | None = None
    try:
        stopped = _import(sources, receiver, report, progress)
    except Stop as error:
        stopped = error
    receiver.close()
    report.seconds = time.monotonic() - began
    progress.finish(report.total)
    if report.total or not stopped:
        click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    if stopped:
        raise stopped
    if report.counts["refused"]:
        sys.exit(1)


def _choose_receiver(tenant: str, url: str | None, key: str | None) -> Receiver:
    if url is not None:
        from handoffaudit.cli.import_receivers import ServerReceiver

        return ServerReceiver(url, require_key(key))
    from handoffaudit.cli.bootstrap import find_tenant, start_with_database
    from handoffaudit.cli.import_receivers import DatabaseReceiver

    start_with_database()
    return DatabaseReceiver(find_tenant(tenant))


class DamagedFile(Stop):
    """The error for a file that can't be read to its end. The other files are still imported."""


def _import(sources: list[Source], receiver: Receiver, report: ImportReport, progress: ProgressBar) -> Stop | None:
    """Import all files, and return the error about damaged files, or None. Raise `Stop` if the receiver fails."""
    before = 0
    damaged: list[Stop] = []
    for source in sources:
        prefix = f"{Path(source.name).name}:" if len(sources) > 1 else ""
        occurrences = Occurrences()
        try:
            for batch in _batch_items(_make_items(source.pieces(), occurrences, report, prefix)):
                for item, answer in zip(batch, receiver.send(batch), strict=True):
                    report.add(f"{prefix}{item.number}", answer)
                progress.update(report.total, before + source.read_bytes)
        except DamagedFile as error:
            damaged.append(error)
        before += source.read_bytes
    if len(damaged) < 2:
        return damaged[0] if damaged else None
    messages = "\n".join(error.message for error in damaged)
    return Stop(f"{len(damaged)} of {len(sources)} files can't be read to their ends:\n{messages}")


def _make_items(pieces: Iterable[Piece], occurrences: Occurrences, report: ImportReport, prefix: str) -> Iterator[Item]:
    for piece in pieces:
        if piece.text is None:
            report.add(f"{prefix}{piece.number}", TOO_LONG)
        else:
            for line in split_line(piece.text):
                yield make_item(piece.number, line, occurrences)


def _batch_items(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield the items in batches; if a file is damaged, first yield the items that were read before."""
    batch: list[Item] = []
    size = 0
    stopped: Stop | None = None
    while True:
        try:
            item = next(items, None)
        except Stop as error:
            item, stopped = None, error
        if batch and (item is None or len(batch) >= BATCH_ITEMS or size + len(item.sent) >= BATCH_BYTES):
            yield batch
            batch, size = [], 0
        if item is None:
            break
        batch.append(item)
        # A line end follows each item in the body of a request.
        size += len(item.sent) + 1
    if stopped:
        raise DamagedFile(stopped.message, stopped.code) from stopped
