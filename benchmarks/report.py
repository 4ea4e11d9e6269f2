"""The table that a run prints."""

import contextlib
import importlib.metadata
import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import django
import psycopg

from benchmarks.places import POSTGRESQL, ROOT


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; `floor` and `ratio` may be empty, and `met` is None without a goal."""

    what: str
    figure: str
    floor: str = ""
    ratio: str = ""
    goal: str = ""
    met: bool | None = None

    def cells(self) -> list[str]:
        said = {True: "met", False: "missed", None: ""}[self.met]
        return [self.what, self.figure, self.floor, self.ratio, self.goal, said]


HEADINGS = ["what", "figure", "floor, same run", "ratio", "goal", ""]


def table(rows: Iterable[Row]) -> str:
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def machine() -> str:
    """Describe the machine and the versions that were measured."""
    versions = (
        f"Python {platform.python_version()}, Django {django.__version__}, {_server()}, SQLite {sqlite3.sqlite_version}"
    )
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {_commit()}: {os.cpu_count()} cores, {_processor()}, "
        f"{versions}; load average when it began {load:.1f}.\n\n{_peers()}"
    )


def _server() -> str:
    """Return the version of PostgreSQL, or that there is no server, which only some of the benchmarks need."""
    try:
        with psycopg.connect(f"{POSTGRESQL}/postgres", connect_timeout=5) as connection:
            return f"PostgreSQL {connection.info.server_version // 10_000}"
    except psycopg.OperationalError:
        return "no PostgreSQL"


def _commit() -> str:
    """Return the commit that is measured, with a plus sign if the files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=10"]
    try:
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


# Products that do a part of the same work. A run names those that are installed beside the product.
PEERS = ("sentry-sdk", "opentelemetry-exporter-otlp-proto-http", "arize-phoenix", "mlflow", "guardrails-ai")


def _peers() -> str:
    found = []
    for name in PEERS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return f"Peers installed here: {', '.join(found) or 'none'}. `client` installs the peers of the client by itself."


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
