"""Logs, and helpers to read the counts and lines that are stored of them."""

from collections import Counter
from typing import Any

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import index, store
from handoffaudit.diagnostics.models import HealthCount, LogBlock, LogCount, LogImport

GATE = "[2026-02-15T{:02}:{:02}:{:02}Z] [INFO] [gate] line {}"


def gate_lines(first: int, last: int) -> bytes:
    """Return log lines with these numbers, one second apart."""
    return b"".join(
        GATE.format(n // 3600 % 24, n // 60 % 60, n % 60, n).encode() + b"\n" for n in range(first, last + 1)
    )


def health_line(n: int, reason: str = "file_missing", agent: str = "planner") -> bytes:
    second = f"2026-02-15T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z"
    return f"agent={agent} phase=plan source=text_fallback reason={reason} timestamp={second} run=r{n}\n".encode()


def send(tenant: Tenant, data: bytes, source: str = "app.log", *, here: bool = True, piece: int = 65_536) -> LogImport:
    """Import a log, and let a worker read it."""
    stream = [data[at : at + piece] for at in range(0, len(data), piece)]
    made = store.store_log(tenant, source, "a test", stream, read_here=here)
    if not here:
        index.drain()
    made.refresh_from_db()
    return made


def counted(tenant: Tenant) -> Counter[str]:
    """Return the number of lines of each kind by the counts."""
    kinds: Counter[str] = Counter()
    for row in LogCount.objects.filter(tenant=tenant):
        assert row.number >= 0
        kinds[row.kind] += row.number
    return +kinds


def health(tenant: Tenant) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for row in HealthCount.objects.filter(tenant=tenant):
        kinds[row.reason] += row.number
    return dict(+kinds)


def stored(tenant: Tenant, source: str = "app.log") -> bytes:
    """Return all stored lines of a source, in their order."""
    blocks = LogBlock.objects.filter(tenant=tenant, source=source).order_by("first_line", "occurrence")
    return b"".join(block.load_text() for block in blocks)


def told(made: LogImport) -> dict[str, Any]:
    return {"lines": made.lines, "known": made.known, "read": made.read, "bad": made.bad}
