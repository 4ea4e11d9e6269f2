"""How long and how large a run is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """`rounds` alternate with the floor's, `seconds` each; `long_seconds` for what must be sustained. `filled`: the
    PostgreSQL database that `browser` fills once, keeps and uses again; empty: one of its own, removed after."""

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
