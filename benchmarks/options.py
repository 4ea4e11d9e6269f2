"""Options that set the length and size of a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    `rounds` of `seconds` each alternate with the floor's rounds; `long_seconds` is for loads that must be sustained.
    `filled` is the PostgreSQL database that `browser` fills once and uses again; if it is empty, a new database is
    created and removed.
    """

    seconds: float = 5.0
    rounds: int = 3
    long_seconds: float = 25.0
    rows: tuple[int, int] = (10_000, 1_000_000)
    requests: int = 60
    handoffs: int = 100_000
    log_bytes: int = 1_000_000_000
    databases: tuple[str, ...] = ("postgresql", "sqlite")
    filled: str = ""


QUICK = Options(
    seconds=1.5, rounds=2, long_seconds=6.0, rows=(1_000, 10_000), requests=15, handoffs=3_000, log_bytes=100_000_000
)
