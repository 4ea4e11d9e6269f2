"""Options that set the length and size of a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    `rounds` of `seconds` each alternate with the floor's rounds; `long_seconds` is for loads that must be sustained.
    Each page is requested `requests` times, spread over `page_rounds` rounds, and visited `visits` times in a browser,
    which then leaves a tab alone for `idle_minutes`. Each command is run `calls` times. With `by_server`, `pages`
    measures databases that PostgreSQL filled itself, and ingest into them. `filled` is the PostgreSQL database that
    `browser` and `pages` fill once and use again. `pages` keeps the database with few handoffs under the same name with
    `_few`. If `filled` is empty, new databases are created and removed.
    """

    seconds: float = 5.0
    rounds: int = 3
    long_seconds: float = 25.0
    rows: tuple[int, int] = (10_000, 1_000_000)
    requests: int = 60
    page_rounds: int = 3
    visits: int = 5
    idle_minutes: int = 10
    calls: int = 21
    handoffs: int = 100_000
    log_bytes: int = 1_000_000_000
    databases: tuple[str, ...] = ("postgresql", "sqlite")
    filled: str = ""
    by_server: bool = False


QUICK = Options(
    seconds=1.0,
    rounds=2,
    long_seconds=5.0,
    rows=(1_000, 10_000),
    requests=5,
    page_rounds=1,
    visits=1,
    idle_minutes=1,
    calls=3,
    handoffs=2_000,
    log_bytes=30_000_000,
)
