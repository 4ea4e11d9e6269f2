"""Whether the model is asked at all: several failures in a row stop the asking for a while, then one probe decides.

A value without a place of its own: whoever keeps it for all processes stores what each transition returns.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from handoffaudit.validation.prompts.question import Reason, Unavailable

FAILURES = 5
OPEN_SECONDS = 30.0
# a probe that never reports back makes room for another
PROBE_SECONDS = 90.0

_OUTAGES = frozenset(
    {
        Reason.TIMEOUT,
        Reason.RATE_LIMIT,
        Reason.OVERLOADED,
        Reason.SERVER_ERROR,
        Reason.CONNECTION,
        Reason.REFUSED,
    }
)
# refused for what one question holds: the next may well be answered
_OF_ONE_QUESTION = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Breaker:
    """Open while `open_until` is set: then nobody is admitted before that time, and one at a time after it."""

    failures: int = 0
    open_until: datetime | None = None
    probing_until: datetime | None = None
    reason: str = ""

    def admit(self, now: datetime, *, probe_seconds: float = PROBE_SECONDS) -> "tuple[Breaker, bool]":
        """The breaker after somebody wanted to ask, and whether they may."""
        if self.open_until is None:
            return self, True
        if now < self.open_until or (self.probing_until is not None and now < self.probing_until):
            return self, False
        return replace(self, probing_until=now + timedelta(seconds=probe_seconds)), True

    def succeeded(self) -> "Breaker":
        """After an answer: closed, whatever was before."""
        return Breaker()

    def failed(self, now: datetime, reason: str, *, limit: int = FAILURES, seconds: float = OPEN_SECONDS) -> "Breaker":
        """After a failure. A probe that fails opens it anew; one that began before it opened prolongs nothing."""
        counted = replace(self, failures=self.failures + 1, reason=reason)
        if self.open_until is not None and now < self.open_until:
            return counted
        if self.open_until is None and counted.failures < limit:
            return counted
        return replace(counted, open_until=now + timedelta(seconds=seconds), probing_until=None)


def is_outage(error: Unavailable) -> bool:
    """Whether this failure speaks of the service, and not of the one question that was asked."""
    return error.reason in _OUTAGES and error.status not in _OF_ONE_QUESTION
