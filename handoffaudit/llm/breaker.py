"""Circuit breaker for the LLM: several failures in a row stop all calls for a while, then one probe decides.

A breaker is an immutable value: the caller stores the result of each transition, where all processes share it.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from handoffaudit.validation.prompts.question import Reason, Unavailable

FAILURES = 5
OPEN_SECONDS = 30.0
# A probe that never reports back makes room for another probe after this many seconds.
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
# The service refuses these requests for their content, and may answer the next request.
_OF_ONE_QUESTION = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of the breaker. Before `open_until` it admits no call, after that time one call at a time."""

    failures: int = 0
    open_until: datetime | None = None
    probing_until: datetime | None = None
    reason: str = ""

    def admit(self, now: datetime, *, probe_seconds: float = PROBE_SECONDS) -> "tuple[Breaker, bool]":
        """Return the breaker after a request for admission, and whether the call is admitted."""
        if self.open_until is None:
            return self, True
        if now < self.open_until or (self.probing_until is not None and now < self.probing_until):
            return self, False
        return replace(self, probing_until=now + timedelta(seconds=probe_seconds)), True

    def succeeded(self) -> "Breaker":
        """Return the breaker after an answer: closed, whatever the state before."""
        return Breaker()

    def failed(self, now: datetime, reason: str, *, limit: int = FAILURES, seconds: float = OPEN_SECONDS) -> "Breaker":
        """Return the breaker after a failure.

        A failed probe opens the breaker again. A failed call that began before the breaker opened does not extend the
        pause.
        """
        counted = replace(self, failures=self.failures + 1, reason=reason)
        if self.open_until is not None and now < self.open_until:
            return counted
        if self.open_until is None and counted.failures < limit:
            return counted
        return replace(counted, open_until=now + timedelta(seconds=seconds), probing_until=None)


def is_outage(error: Unavailable) -> bool:
    """Return whether the failure concerns the whole service and not only this one question."""
    return error.reason in _OUTAGES and error.status not in _OF_ONE_QUESTION
