"""What a repair has to work with: the means that its caller gives, and the judge whom each draft is shown to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.counting import Counter
from handoffaudit.validation.differing import Change
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.paths import Location
from handoffaudit.validation.ports import FileStore, Summarizer
from handoffaudit.validation.repair.compress import Budget
from handoffaudit.validation.repair.draft import Draft
from handoffaudit.validation.repair.resealing import resealed
from handoffaudit.validation.verdict import Verdict

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


def budget_of(policy: TypePolicy, counter: Counter, format_name: str = "") -> Budget:
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
            document, changes = resealed(self.original, draft.document, self.form)
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
