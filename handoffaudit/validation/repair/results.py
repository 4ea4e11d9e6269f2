"""What a repair has to work with, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.diff import Change
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import Location
from handoffaudit.validation.ports import FileStore, Summarizer
from handoffaudit.validation.repair.compress import Budget
from handoffaudit.validation.repair.edit import Draft, recompute_hashes
from handoffaudit.validation.tokenizers import TokenCounter
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


Judge = Callable[[Document], Verdict]


@dataclass(frozen=True, slots=True)
class Means:
    """`new_id` makes UUIDs of version 4; `known` are values that the caller knows better than any sender, such as the
    tenant; `store` writes files beside the sender's, where it can."""

    budget: Budget
    now: datetime
    new_id: Callable[[], str]
    known: Mapping[Location, Any] = field(default_factory=dict)
    store: FileStore | None = None
    summarizer: Summarizer | None = None


def budget_of(policy: TypePolicy, counter: TokenCounter, format_name: str = "") -> Budget:
    """Return the budget of a type in a format. A chain that a person must approve is not cut to one that passes."""
    return Budget(policy.budget_of(format_name), counter, max(policy.recommended_length, policy.approval_length + 1))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A draft with its figures recomputed, and what the judge says of it."""

    document: Document
    changes: tuple[Change, ...]
    verdict: Verdict


@dataclass(slots=True)
class Work:
    """One repair under way. The last draft's candidate is kept, so that no draft is judged twice."""

    original: Document
    form: str
    means: Means
    judge: Judge
    last: tuple[Draft, Candidate] | None = None

    def candidate(self, draft: Draft) -> Candidate:
        if self.last is None or self.last[0] is not draft:
            document, changes = recompute_hashes(self.original, draft.document, self.form)
            found = Candidate(document, (*draft.changes, *changes), self.judge(document))
            self.last = (draft, found)
        return self.last[1]


class Try(Protocol):
    """One way to mend a document: a draft further on, or the one that was given where there is nothing to do.

    `idle` says in a sentence why there is nothing to do for a draft.
    """

    @property
    def name(self) -> str: ...
    def idle(self, draft: Draft, work: Work) -> str: ...
    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft: ...
