"""What of the kept counts was accepted, approved by a person or stopped: said once for all reports."""

from collections.abc import Mapping
from typing import Final

from handoffaudit.diagnostics.tallies import Judged
from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.outcome_sums import Sums

# As on the overview: what waits is not judged, and a superseded one counts by the attempt that took its place.
JUDGED_STATES: Final[Mapping[str, tuple[State, ...]]] = {
    name: OUTCOMES[name] for name in ("accepted", "decided", "stopped")
}


def judged_of(sums: Sums) -> Judged:
    return Judged(sums.accepted, sums.decided, sums.stopped)
