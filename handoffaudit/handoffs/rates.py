"""Rates of handoffs: which states count, and the one definition of each rate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final

from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.outcome_sums import Sums

# The definitions, as pages, reports and the reference of the API show them.
ACCEPTANCE_RATE: Final = (
    "Accepted without a person, of all final attempts. Approvals are counted apart, superseded attempts are left out."
)
BLOCK_RATE: Final = (
    "Blocked (rejected, held or declined), of all final attempts. Approvals are counted apart, superseded attempts are "
    "left out."
)
REJECTION_RATE: Final = "Rejected or declined, of all final attempts. Superseded attempts are left out."
# A handoff that waits to be judged counts in no rate, and a superseded one by the attempt that took its place.
JUDGED_STATES: Final[Mapping[str, tuple[State, ...]]] = {
    name: OUTCOMES[name] for name in ("accepted", "decided", "stopped")
}
BLOCKED: Final = JUDGED_STATES["stopped"]
FINAL: Final = tuple(state for states in JUDGED_STATES.values() for state in states)
_COUNTS_AS: Final = {str(state): name for name, states in JUDGED_STATES.items() for state in states}
_REJECTED: Final = (State.REJECTED, State.DECLINED)
# The 95 % interval of Wilson's lower bound.
_Z: Final = 1.96


@dataclass(frozen=True, slots=True)
class Share:
    """A number of handoffs or files, `part`, out of `total`."""

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
class OutcomeCounts:
    """Count the settled handoffs that rates are made of. `accepted` needed no person, `decided` were approved by one,
    `stopped` are blocked: rejected, held or declined."""

    accepted: int = 0
    decided: int = 0
    stopped: int = 0

    @classmethod
    def of_states(cls, states: Mapping[str, int]) -> "OutcomeCounts":
        """Sum the numbers of handoffs by state. States that count in no rate are ignored."""
        found = dict.fromkeys(JUDGED_STATES, 0)
        for state, number in states.items():
            if name := _COUNTS_AS.get(state):
                found[name] += number
        return cls(**found)

    @classmethod
    def of(cls, several: "Iterable[OutcomeCounts]") -> "OutcomeCounts":
        """Return all of them together."""
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
        """Return what is not listed: never less than nothing, as counts move between two queries."""
        return OutcomeCounts(
            max(0, self.accepted - listed.accepted),
            max(0, self.decided - listed.decided),
            max(0, self.stopped - listed.stopped),
        )


def outcome_counts_of(sums: Sums) -> OutcomeCounts:
    """Return the final attempts among summed outcomes."""
    return OutcomeCounts(sums.accepted, sums.decided, sums.stopped)


def rejection_rate(states: Mapping[str, int]) -> Share:
    """Return the share of rejected and declined handoffs in the final attempts: held and approved ones are not it."""
    return Share(sum(states.get(state, 0) for state in _REJECTED), OutcomeCounts.of_states(states).total)
