"""What came of a repair."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from handoffaudit.validation.differing import Change
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.verdict import Verdict


class RepairStatus(StrEnum):
    """`not_needed`: there are no errors. `not_possible`: there is no document that rules could mend."""

    NOT_NEEDED = "not_needed"
    NOT_POSSIBLE = "not_possible"
    REPAIRED = "repaired"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: the candidate that it came to, all changes since the document that arrived, and the verdict on it.
    `note` says why a try found nothing to do, or where it fell short. `is_idle`: it found nothing to do, so that its
    candidate is the one before."""

    number: int
    name: str
    document: Document
    changes: tuple[Change, ...]
    verdict: Verdict
    note: str = ""
    is_idle: bool = False

    @property
    def errors(self) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.verdict.issues if issue.severity in (Severity.ERROR, Severity.CRITICAL))


@dataclass(frozen=True, slots=True)
class Repair:
    """`repaired` is the attempt to offer: the first without errors, and with a quality score no lower than before.
    Where there is none, `why` says what is to be done."""

    status: RepairStatus
    attempts: tuple[Attempt, ...] = ()
    repaired: Attempt | None = None
    why: str = ""


def repair_to_dict(result: Repair) -> dict[str, Any]:
    """The result as the API and files show it. `document` is the candidate, null where there is none."""
    return {
        "status": result.status.value,
        "why": result.why,
        "repaired_by": result.repaired.number if result.repaired else None,
        "document": result.repaired.document if result.repaired else None,
        "attempts": [_attempt_dict(attempt) for attempt in result.attempts],
    }


def _attempt_dict(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "name": attempt.name,
        "note": attempt.note,
        "valid": attempt.verdict.valid,
        "outcome": attempt.verdict.outcome.value,
        "quality_score": attempt.verdict.quality_score,
        "changes": [change.to_dict() for change in attempt.changes],
        "errors": [issue.to_dict() for issue in attempt.errors],
    }
