"""Rates of handoffs: the states that count, and the one definition of each rate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final

from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.outcome_sums import Sums

# Pages, reports and the API reference show these definitions.
ACCEPTANCE_RATE: Final = (
    "Accepted without a person, of all final attempts. Approvals are counted apart, superseded attempts are left out."
)
BLOCK_RATE: Final = (
    "Blocked (rejected, held or declined), of all final attempts. Approvals are counted apart, superseded attempts are "
    "left out."
)
REJECTION_RATE: Final = "Rejected or declined, of all final attempts. Superseded attempts are left out."
# An unjudged handoff counts in no rate. A superseded handoff is represented by the attempt that superseded it.
JUDGED_STATES: Final[Mapping[str, tuple[State, ...]]] = {
    name: OUTCOMES[name] for name in ("accepted", "decided", "stopped")
}
BLOCKED: Final = JUDGED_STATES["stopped"]
FINAL: Final = tuple(state for states in JUDGED_STATES.values() for state in states)
_COUNTS_AS: Final = {str(state): name for name, states in JUDGED_STATES.items() for state in states}
_REJECTED: Final = (State.REJECTED, State.DECLINED)
# The z-value of a 95 % confidence interval, for Wilson's lower bound.
_Z: Final = 1.96


@dataclass(frozen=True, slots=True)
class Share:
    """A number of handoffs or files, `part`, out of `total`."""

    part: int
    total: int

    @property
    def percent(self) -> float | None:
        """Return the share in percent with one decimal, or None if the total is 0.

        Rounding never yields 100 unless the share is all, nor 0 unless it is none.
        """
        if not self.total:
            return None
        rounded = round(100 * self.part / self.total, 1)
        if 0 < self.part < self.total:
            return min(max(rounded, 0.1), 99.9)
        return rounded

    @property
    def value(self) -> float:
        """Return the share from 0 to 1; 0 if the total is 0."""
        return self.part / self.total if self.total else 0.0

    @property
    def percent_told(self) -> str:
        """Return the percentage as text: `99.5%`, or `n/a`."""
        return "n/a" if self.percent is None else f"{self.percent:.1f}%"

    def __str__(self) -> str:
        """Return the share as text: `199/200 (99.5%)`, or `0/0 (n/a)`."""
        return f"{self.part}/{self.total} ({self.percent_told})"

    @property
    def at_least(self) -> float:
        """Return Wilson's lower bound of the share, from 0 to 1, at 95 % confidence.

        Sorting by the bound ranks 30 of 40 above 1 of 1, because a single case may be chance.
        """
        if not self.total:
            return 0.0
        share, number = self.part / self.total, self.total
        middle = share + _Z**2 / (2 * number)
        margin = _Z * sqrt(share * (1 - share) / number + _Z**2 / (4 * number**2))
        return max(0.0, (middle - margin) / (1 + _Z**2 / number))


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """The numbers of final attempts that rates are made of.

    `accepted` handoffs needed no person, `decided` handoffs were approved by a person, and `stopped` handoffs are
    blocked: rejected, held or declined.
    """

    accepted: int = 0
    decided: int = 0
    stopped: int = 0

    @classmethod
    def of_states(cls, states: Mapping[str, int]) -> "OutcomeCounts":
        """Return the sums of these numbers of handoffs by state. States that count in no rate are ignored."""
        found = dict.fromkeys(JUDGED_STATES, 0)
        for state, number in states.items():
            if name := _COUNTS_AS.get(state):
                found[name] += number
        return cls(**found)

    @classmethod
    def of(cls, several: "Iterable[OutcomeCounts]") -> "OutcomeCounts":
        """Return the sum of several counts."""
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
        """Return the acceptance rate (`ACCEPTANCE_RATE`)."""
        return Share(self.accepted, self.total)

    @property
    def blocked_share(self) -> Share:
        """Return the block rate (`BLOCK_RATE`)."""
        return Share(self.stopped, self.total)

    def __add__(self, other: "OutcomeCounts") -> "OutcomeCounts":
        return OutcomeCounts(self.accepted + other.accepted, self.decided + other.decided, self.stopped + other.stopped)

    def rest(self, listed: "OutcomeCounts") -> "OutcomeCounts":
        """Return these counts minus the listed ones; at least 0, because counts can change between two queries."""
        return OutcomeCounts(
            max(0, self.accepted - listed.accepted),
            max(0, self.decided - listed.decided),
            max(0, self.stopped - listed.stopped),
        )


def outcome_counts_of(sums: Sums) -> OutcomeCounts:
    """Return the final attempts among summed outcomes."""
    return OutcomeCounts(sums.accepted, sums.decided, sums.stopped)


def rejection_rate(states: Mapping[str, int]) -> Share:
    """Return the rejection rate (`REJECTION_RATE`) for these numbers of handoffs by state."""
    return Share(sum(states.get(state, 0) for state in _REJECTED), OutcomeCounts.of_states(states).total)
