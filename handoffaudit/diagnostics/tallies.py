"""Numbers and shares as reports show them. Nothing here asks the database."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import sqrt

from handoffaudit.validation.formats.file_report import Fallback, Reason, Source

REASONS = tuple(reason.value for reason in Reason)
# A file that was not used, and its line in a log did not say why.
OTHER = "other"
# Below so many, a share says little.
FEW = 20
_Z = 1.96


@dataclass(frozen=True, slots=True)
class Share:
    """`part` of `total`."""

    part: int
    total: int

    @property
    def percent(self) -> float | None:
        """With one digit; 100 only where it is all of them, 0 only where it is none; None of nothing."""
        if not self.total:
            return None
        rounded = round(100 * self.part / self.total, 1)
        if 0 < self.part < self.total:
            return min(max(rounded, 0.1), 99.9)
        return rounded

    @property
    def value(self) -> float:
        """From 0 to 1; 0 of nothing."""
        return self.part / self.total if self.total else 0.0

    @property
    def percent_told(self) -> str:
        """`99.5%`, or `n/a`."""
        return "n/a" if self.percent is None else f"{self.percent:.1f}%"

    def __str__(self) -> str:
        """`199/200 (99.5%)`, `0/0 (n/a)`."""
        return f"{self.part}/{self.total} ({self.percent_told})"

    @property
    def at_least(self) -> float:
        """The least share, from 0 to 1, that so many make likely (Wilson's lower bound, 95 %): 1 of 1 is less sure to
        be bad than 30 of 40. Sorting by it puts first what matters."""
        if not self.total:
            return 0.0
        share, number = self.part / self.total, self.total
        middle = share + _Z**2 / (2 * number)
        margin = _Z * sqrt(share * (1 - share) / number + _Z**2 / (4 * number**2))
        return max(0.0, (middle - margin) / (1 + _Z**2 / number))


@dataclass(frozen=True, slots=True)
class Change:
    """A share now, and before."""

    now: Share
    before: Share

    @property
    def points(self) -> float | None:
        """By how many percentage points it changed; None where there is nothing to compare."""
        if not self.now.total or not self.before.total:
            return None
        return round(100 * (self.now.part / self.now.total - self.before.part / self.before.total), 1)

    @property
    def direction(self) -> str:
        """`better`, `worse`, `same` or `none`; more is better."""
        if self.points is None:
            return "none"
        return "same" if not self.points else "better" if self.points > 0 else "worse"

    @property
    def fewer(self) -> str:
        """The same where less is better."""
        return {"better": "worse", "worse": "better"}.get(self.direction, self.direction)

    @property
    def few(self) -> bool:
        """Whether it is too few to say."""
        return min(self.now.total, self.before.total) < FEW


@dataclass(frozen=True, slots=True)
class FileTally:
    """What became of handoff files: `used`, or why not; and how the fallback went."""

    used: int = 0
    file_missing: int = 0
    json_parse_error: int = 0
    schema_invalid: int = 0
    other: int = 0
    fallback_ok: int = 0
    fallback_failed: int = 0

    @property
    def unused(self) -> int:
        return sum(self.reasons.values())

    @property
    def total(self) -> int:
        return self.used + self.unused

    @property
    def share(self) -> Share:
        """Of files that were used."""
        return Share(self.used, self.total)

    @property
    def unused_share(self) -> Share:
        return Share(self.unused, self.total)

    @property
    def reasons(self) -> dict[str, int]:
        return {reason: getattr(self, reason) for reason in (*REASONS, OTHER)}

    @property
    def main_reason(self) -> str:
        """The one that most have, empty where all were used."""
        return max(self.reasons, key=lambda reason: self.reasons[reason]) if self.unused else ""

    def reason_share(self, reason: str) -> Share:
        return Share(self.reasons[reason], self.total)

    @property
    def reason_shares(self) -> dict[str, Share]:
        return {reason: self.reason_share(reason) for reason in self.reasons}

    def __add__(self, other: "FileTally") -> "FileTally":
        return FileTally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(FileTally)))

    def rest(self, listed: "FileTally") -> "FileTally":
        """What is not among the listed ones: never less than nothing, as counts grow between two queries."""
        return FileTally(*(max(0, getattr(self, one.name) - getattr(listed, one.name)) for one in fields(FileTally)))


USED_SOURCE = Source.HANDOFF_JSON.value
FALLBACK_OK, FALLBACK_FAILED = Fallback.OK.value, Fallback.FAILED.value


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of handoffs that were judged. `accepted` needed no person; `decided` were approved by one, `stopped`
    are rejected, held or declined."""

    accepted: int = 0
    decided: int = 0
    stopped: int = 0

    @classmethod
    def of(cls, several: "Iterable[Judged]") -> "Judged":
        """All of them together."""
        accepted = decided = stopped = 0
        for one in several:
            accepted += one.accepted
            decided += one.decided
            stopped += one.stopped
        return cls(accepted, decided, stopped)

    @property
    def total(self) -> int:
        return self.accepted + self.decided + self.stopped

    @property
    def share(self) -> Share:
        """Accepted without a person."""
        return Share(self.accepted, self.total)

    def __add__(self, other: "Judged") -> "Judged":
        return Judged(self.accepted + other.accepted, self.decided + other.decided, self.stopped + other.stopped)

    def rest(self, listed: "Judged") -> "Judged":
        """What is not among the listed ones: never less than nothing, as counts move between two queries."""
        return Judged(
            max(0, self.accepted - listed.accepted),
            max(0, self.decided - listed.decided),
            max(0, self.stopped - listed.stopped),
        )
