"""The table that a run prints."""

import os
import platform
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import django
import psycopg

from benchmarks.places import POSTGRESQL


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
    with psycopg.connect(f"{POSTGRESQL}/postgres") as connection:
        server = connection.info.server_version // 10_000
    versions = (
        f"Python {platform.python_version()}, Django {django.__version__}, PostgreSQL {server}, "
        f"SQLite {sqlite3.sqlite_version}"
    )
    load = os.getloadavg()[0]
    return f"{datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {versions}; load average when it began {load:.1f}."


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
