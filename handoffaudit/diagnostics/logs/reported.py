"""Health lines of reports that were counted when they came by the API: the product's own lines, sent in as a log."""

from collections.abc import Iterator
from datetime import datetime

from handoffaudit.diagnostics.models import FileReport
from handoffaudit.validation.loglines import HealthLine, read_bytes
from handoffaudit.validation.loglines.sums import Tally, key_of
from handoffaudit.validation.text import clean

_AT_ONCE = 500
_Known = tuple[str, str, str, str, str, datetime]


def any_of(tenant_id: int) -> bool:
    """Whether there is any report that a line may be of."""
    return FileReport.objects.filter(tenant_id=tenant_id).exists()


def leave_out(tenant_id: int, summed: Tally, text: bytes) -> None:
    """Takes lines whose run, agent, phase, iteration, reason and time (to the second) are those of a report out of the
    counts of handoff files; as lines they count all the same."""
    known = set(_known(tenant_id, summed)) if summed.runs else set()
    if not known:
        return
    for raw in text.split(b"\n"):
        if not raw.startswith(b"agent="):
            continue
        line = read_bytes(raw)
        if isinstance(line, HealthLine) and _of(line) in known:
            summed.counts.health[key_of(line)] -= 1


def _known(tenant_id: int, summed: Tally) -> Iterator[_Known]:
    rows = FileReport.objects.filter(tenant_id=tenant_id, at__range=(summed.first_at, summed.last_at))
    fields = ("run_id", "agent", "phase", "iteration", "reason", "at")
    runs = sorted(map(clean, summed.runs))
    for start in range(0, len(runs), _AT_ONCE):
        for *names, at in rows.filter(run_id__in=runs[start : start + _AT_ONCE]).values_list(*fields):
            yield (*names, at.replace(microsecond=0))


def _of(line: HealthLine) -> _Known:
    names = (clean(line.run_id), clean(line.agent), clean(line.phase), clean(line.iteration, 40))
    return (*names, str(line.reason or ""), line.at.replace(microsecond=0))
