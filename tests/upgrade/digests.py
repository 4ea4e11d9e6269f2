"""Digests of the documents and verdicts of a database, to tell whether an upgrade changed any of them."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "fixtures" / "digests.json"
# By table, as the fixtures have them.
COLUMNS = {
    "handoffs_handoffbody": ("handoff_id", ("original", "context", "evidence", "lifted")),
    "handoffs_verdict": ("id", ("content",)),
}


def digest(rows: Iterable[tuple[Any, Any]]) -> str:
    """Return the SHA-256 of ids with their values, whatever order they come in."""
    found = hashlib.sha256()
    for name, value in sorted((str(pk).replace("-", ""), _as_bytes(value)) for pk, value in rows):
        said = "null" if value is None else f"{len(value)} {hashlib.sha256(value).hexdigest()}"
        found.update(f"{name} {said}\n".encode())
    return found.hexdigest()


def _as_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def expected(fixture: str) -> dict[str, str]:
    """Return the digests of a fixture by table and column."""
    found: dict[str, str] = json.loads(FILE.read_text())[fixture]
    return found
