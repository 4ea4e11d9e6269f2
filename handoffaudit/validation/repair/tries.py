"""The inputs of a repair, its tries and its result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.diff import Change
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.layers.base import FileStore, Summarizer
from handoffaudit.validation.paths import Location
from handoffaudit.validation.repair.compress import Budget
from handoffaudit.validation.repair.edit import Draft, recompute_hashes
from handoffaudit.validation.tokenizers import TokenCounter
from handoffaudit.validation.verdict import Verdict


class RepairStatus(StrEnum):
    """The status of a repair.

    `not_needed` means that the document has no errors, and `not_possible` that there is no document to fix by rules.
    """

    NOT_NEEDED = "not_needed"
    NOT_POSSIBLE = "not_possible"
    REPAIRED = "repaired"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: its candidate, all changes since the document that arrived, and the verdict on the candidate.

    `note` says why the try had nothing to do, or how it missed its goal. `is_idle` is true if the try had nothing to
    do, so its candidate is the previous one.
    """

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
    """The result of a repair.

    `repaired` is the attempt to offer: the first one without errors whose quality score is not lower than before. If
    there is no such attempt, `why` says what to do.
    """

    status: RepairStatus
    attempts: tuple[Attempt, ...] = ()
    repaired: Attempt | None = None
    why: str = ""


def repair_to_dict(result: Repair) -> dict[str, Any]:
    """Return the result as the API and files show it.

    `document` is the candidate, or null if there is none.
    """
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
    """The means of a repair.

    `new_id` makes UUIDs of version 4. `known` are values that the caller knows better than the sender, such as the
    tenant. `store`, if given, writes files beside the sender's.
    """

    budget: Budget
    now: datetime
    new_id: Callable[[], str]
    known: Mapping[Location, Any] = field(default_factory=dict)
    store: FileStore | None = None
    summarizer: Summarizer | None = None


def budget_of(policy: TypePolicy, counter: TokenCounter, format_name: str = "") -> Budget:
    """Return the budget of a type in a format. Its chain length keeps long chains subject to approval."""
    return Budget(policy.budget_of(format_name), counter, max(policy.recommended_length, policy.approval_length + 1))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A draft with its hash, size and token count recomputed, and the verdict on it."""

    document: Document
    changes: tuple[Change, ...]
    verdict: Verdict


@dataclass(slots=True)
class Work:
    """One repair in progress.

    `last` caches the candidate of the last draft, so that no draft is judged twice.
    """

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
    """One way to fix a document. It returns a changed draft, or the given draft if there is nothing to do.

    `idle` returns a sentence that says why there is nothing to do.
    """

    @property
    def name(self) -> str: ...
    def idle(self, draft: Draft, work: Work) -> str: ...
    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft: ...
