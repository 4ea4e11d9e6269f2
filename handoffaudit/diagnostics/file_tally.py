"""Tallies of handoff files and changes of shares, as reports show them, computed without the database."""

from dataclasses import dataclass, fields

from handoffaudit.handoffs.rates import Share
from handoffaudit.validation.formats.file_report import Fallback, Reason, Source

REASONS = tuple(reason.value for reason in Reason)

# A log line can report an unused file without a reason.
OTHER = "other"

USED_SOURCE = Source.HANDOFF_JSON.value

FALLBACK_OK, FALLBACK_FAILED = Fallback.OK.value, Fallback.FAILED.value

# Every reason that a report or a log line can give. Logs of other tools give only the outcome of the fallback.
GIVEN = (*REASONS, FALLBACK_OK, FALLBACK_FAILED, OTHER)

# A share of fewer files says little.
FEW = 20


@dataclass(frozen=True, slots=True)
class Change:
    """A share now and in the period before."""

    now: Share
    before: Share

    @property
    def points(self) -> float | None:
        """Return the change in percentage points, or None if one of the two shares has nothing to compare."""
        if not self.now.total or not self.before.total:
            return None
        return round(100 * (self.now.part / self.now.total - self.before.part / self.before.total), 1)

    @property
    def direction(self) -> str:
        """Return `better`, `worse`, `same` or `none` (nothing to compare), where a larger share is better."""
        if self.points is None:
            return "none"
        return "same" if not self.points else "better" if self.points > 0 else "worse"

    @property
    def fewer(self) -> str:
        """Return the direction where a smaller share is better."""
        return {"better": "worse", "worse": "better"}.get(self.direction, self.direction)

    @property
    def few(self) -> bool:
        """Return whether one of the two shares has too few items for a comparison."""
        return min(self.now.total, self.before.total) < FEW


@dataclass(frozen=True, slots=True)
class FileTally:
    """Counts of handoff files: used, unused by reason, and the outcomes of reading the response text instead.

    `fallback_ok` and `fallback_failed` count every file for which the response text was tried. `text_fallback_ok` and
    `text_fallback_fail` count only unused files whose log line gives the fallback as its sole reason. `other` counts
    unused files without a reason.
    """

    used: int = 0
    file_missing: int = 0
    json_parse_error: int = 0
    schema_invalid: int = 0
    other: int = 0
    fallback_ok: int = 0
    fallback_failed: int = 0
    text_fallback_ok: int = 0
    text_fallback_fail: int = 0

    @property
    def unused(self) -> int:
        return sum(self.reasons.values())

    @property
    def total(self) -> int:
        return self.used + self.unused

    @property
    def share(self) -> Share:
        """Return the share of files that were used."""
        return Share(self.used, self.total)

    @property
    def unused_share(self) -> Share:
        return Share(self.unused, self.total)

    @property
    def reasons(self) -> dict[str, int]:
        return {reason: getattr(self, reason) for reason in GIVEN}

    @property
    def file_reasons(self) -> dict[str, int]:
        """Return the three file reasons, and all other unused files as `other`, for tables with fixed columns."""
        found = {reason: getattr(self, reason) for reason in REASONS}
        return found | {OTHER: self.unused - sum(found.values())}

    @property
    def main_reason(self) -> str:
        """Return the most frequent reason, or an empty text if all files were used."""
        return max(self.reasons, key=lambda reason: self.reasons[reason]) if self.unused else ""

    def reason_share(self, reason: str) -> Share:
        return Share(self.reasons[reason], self.total)

    @property
    def reason_shares(self) -> dict[str, Share]:
        return {reason: self.reason_share(reason) for reason in self.reasons}

    @property
    def file_reason_shares(self) -> dict[str, Share]:
        return {reason: Share(number, self.total) for reason, number in self.file_reasons.items()}

    def __add__(self, other: "FileTally") -> "FileTally":
        return FileTally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(FileTally)))

    def rest(self, listed: "FileTally") -> "FileTally":
        """Return the counts minus the listed counts, at least 0 each, because counts can grow between two queries."""
        return FileTally(*(max(0, getattr(self, one.name) - getattr(listed, one.name)) for one in fields(FileTally)))
