"""The bundled sample (`handoffaudit/samples/README.md`) as it is sent in: handoffs, reports of handoff files, logs."""

import gzip
import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

import handoffaudit
from handoffaudit.handoffs.ingest.prepare import read_submission
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.times import utc_text

FOLDER: Final = Path(handoffaudit.__file__).parent / "samples"
# The time that reports and log lines lead up to; they are moved so that it is the time of whoever looks.
ENDS_AT: Final = datetime(2026, 2, 14, 12, tzinfo=UTC)
_REPORTS: Final = {"handoff-files.json.gz": "sample-file-", "handoff-files-made.json.gz": "sample-made-file-"}
_LOGS: Final = {"agents.log.gz": "sample: work orders", "runtimes.log.gz": "sample: runtimes"}
_TIME: Final = re.compile(r"\b2026-02-\d\dT\d\d:\d\d:\d\dZ")


@cache
def total() -> int:
    """How many handoffs come of it."""
    return sum(1 for _ in submissions("")) + sum(1 for _ in reports(ENDS_AT))


def submissions(tenant_slug: str) -> Iterator[Submission]:
    """Handoffs as that tenant sends them, each with an id that is the same every time."""
    for path in sorted(FOLDER.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            yield _submission(line, tenant_slug)


def reports(until: datetime) -> Iterator[tuple[str, bytes]]:
    """Reports of handoff files with their ids, moved so that the newest is of `until`."""
    for name, begins in _REPORTS.items():
        for number, report in enumerate(orjson.loads(_unpacked(name))):
            yield f"{begins}{number}", orjson.dumps(report | {"timestamp": _moved(report["timestamp"], until)})


def first_report() -> tuple[str, datetime]:
    """The id of the first report and its time, before it is moved."""
    name, begins = next(iter(_REPORTS.items()))
    return f"{begins}0", datetime.fromisoformat(orjson.loads(_unpacked(name))[0]["timestamp"])


def logs(until: datetime) -> Iterator[tuple[str, bytes]]:
    """Each log under its name, moved in the same way."""
    for file, name in _LOGS.items():
        yield name, _TIME.sub(lambda found: _moved(found[0], until), _unpacked(file).decode()).encode()


def _submission(line: bytes, tenant_slug: str) -> Submission:
    sent: dict[str, Any] = orjson.loads(line)
    derived = f"sample-{hashlib.sha256(line).hexdigest()[:40]}"
    if "raw" in sent:
        return Submission(sent["raw"].encode(), format=sent.get("format"), envelope=Envelope(handoff_id=derived))
    document = sent["document"]
    if "tenant_id" in document:
        document["tenant_id"] = tenant_slug
    return read_submission(orjson.dumps(sent), handoff_id=document.get("handoff_id") or derived)


def _unpacked(name: str) -> bytes:
    return gzip.decompress((FOLDER / name).read_bytes())


def _moved(time: str, until: datetime) -> str:
    return utc_text(until - (ENDS_AT - datetime.fromisoformat(time)))
