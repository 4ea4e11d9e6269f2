"""The repair of a rejected document: three tries, each with a judged candidate. If all fail, a person has to decide.

This package does not apply a candidate. The caller decides whether to apply a candidate.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.diff import Change, removal
from handoffaudit.validation.formats import BY_NAME, handoff_file, universal
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, loses_digits
from handoffaudit.validation.layers.base import LanguageModel
from handoffaudit.validation.prompts.question import Prompt
from handoffaudit.validation.repair.by_model import Author, OrModel, why_not_asked
from handoffaudit.validation.repair.compress import SESSION_FILE, Compressed, compress, count
from handoffaudit.validation.repair.edit import Budget, Draft, Judge, Means, Try, Work
from handoffaudit.validation.repair.hints import follow
from handoffaudit.validation.tokenizers import TokenCounter
from handoffaudit.validation.verdict import Verdict

_MOST_ROUNDS = 5


class RepairStatus(StrEnum):
    """The status of a repair.

    `not_needed` means that the document has no errors. `not_possible` means that no rule can fix the document. For
    example, the document cannot be read, only the agent can write the required file, or an integer would lose digits.
    `escalated` means that no candidate can be offered, so a person must decide.
    """

    NOT_NEEDED = "not_needed"
    NOT_POSSIBLE = "not_possible"
    REPAIRED = "repaired"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: its candidate, all changes since the document that arrived, and the verdict on the candidate.

    `note` says why the try had nothing to do, or how the try missed its goal. `is_idle` is true if the try had nothing
    to do, so its candidate is the previous candidate.
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

    `repaired` is the attempt to offer: the first attempt without errors whose quality score is not below the score of
    the original document. If there is no such attempt, `why` gives the reason.
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


def budget_of(policy: TypePolicy, counter: TokenCounter, format_name: str = "") -> Budget:
    """Return the budget of a type in a format.

    The chain length of the budget is above the approval length. Therefore, a chain that needs approval still needs
    approval after the compression has cut the chain.
    """
    return Budget(policy.budget_of(format_name), counter, max(policy.recommended_length, policy.approval_length + 1))


class DefaultsAndHints:
    """The try that adds defaults for missing fields and follows every hint that needs no person.

    The try also fixes new findings that these changes reveal, in at most five rounds.
    """

    name = "defaults and hints"

    def idle(self, draft: Draft, work: Work) -> str:
        return "Following the hints requires information that the document does not contain."

    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft:
        for _ in range(_MOST_ROUNDS):
            fixed = draft
            for issue in verdict.issues:
                fixed = follow(fixed, issue, work) or fixed
            if fixed is draft:
                break
            draft, verdict = fixed, work.candidate(fixed).verdict
            if verdict.valid:
                break
        return draft


class Compression:
    """The try that shortens the document until it meets its token budget."""

    name = "compression"

    def idle(self, draft: Draft, work: Work) -> str:
        budget = work.means.budget
        tokens = count(draft.document, budget.counter)
        if tokens <= budget.limit:
            return f"The document is within its token budget: {tokens:,} of {budget.limit:,}."
        return Compressed(draft.document, (), tokens, fits=False).shortfall(budget.limit)

    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft:
        means = work.means
        short = compress(draft.document, work.form, means.budget, store=means.store, summarizer=means.summarizer)
        if not short.changes:
            return draft
        return Draft(short.document, (*draft.changes, *short.changes), draft.moved, short.shortfall(means.budget.limit))


class WorkingOnly:
    """The try that keeps only the working part of the payload."""

    name = "working only"

    def idle(self, draft: Draft, work: Work) -> str:
        payload = draft.value(("handoff", "payload"))
        if work.form != "universal":
            return "Only documents of the format universal have a working part."
        if not isinstance(payload, dict) or "working" not in payload:
            return "The payload has no working part."
        return "The payload contains only payload.working."

    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft:
        place = ("handoff", "payload")
        payload = draft.value(place)
        if work.form != "universal" or not isinstance(payload, dict) or "working" not in payload:
            return draft
        document, changes = draft.document, draft.changes
        for name in [name for name in payload if name != "working"]:
            changes = (*changes, removal((*place, name), payload[name], "payload.working only"))
        if len(payload) > 1:
            handoff = {**document["handoff"], "payload": {"working": payload["working"]}}
            return Draft({**document, "handoff": handoff}, changes, draft.moved)
        return draft


_TOO_LONG: Final = "The document has an integer beyond 64 bits, which a repair would round. The sender must correct it."
_ONLY_SENDER: Final = handoff_file.STRICT.code

TRIES: Final[Sequence[Try]] = (DefaultsAndHints(), Compression(), WorkingOnly())


def tries_with(model: LanguageModel, prompt: Prompt | None = None) -> Sequence[Try]:
    """Return the three tries for one repair with an LLM.

    Of the two tries after the hints, the LLM replaces the first try that has nothing to do.
    """
    hints, *others = TRIES
    author = Author(model, prompt)
    return (hints, *(OrModel(rule, author) for rule in others))


def is_left_to_model(result: Repair, form: str) -> bool:
    """Return whether a try after the hints had nothing to do, and errors are left that an LLM might fix."""
    if result.status is not RepairStatus.ESCALATED or not any(attempt.is_idle for attempt in result.attempts[1:]):
        return False
    last = result.attempts[-1]
    return not why_not_asked(last.document, list(last.errors), form)


def repair(
    document: object,
    verdict: Verdict,
    form: str,
    *,
    judge: Judge,
    means: Means,
    tries: Sequence[Try] = TRIES,
    sent: bytes = b"",
) -> Repair:
    """Return the candidates for `document`, up to the first candidate that can be offered.

    `verdict` is the verdict on `document`; `form` is the name of its format, or empty if the format is unknown. `sent`
    is the JSON from which the document was read, if known. If the reading rounded an integer of this JSON, there are no
    candidates. Each try continues from the previous candidate. The document itself is never changed, and the result
    never offers a candidate with errors or with a lower quality score.
    """
    if verdict.valid:
        return Repair(RepairStatus.NOT_NEEDED, why="There are no errors to repair.")
    if any(issue.code == _ONLY_SENDER for issue in verdict.issues):
        return Repair(
            RepairStatus.NOT_POSSIBLE, why="Only the agent can write the handoff file that the policy requires."
        )
    if not isinstance(document, dict) or form not in BY_NAME or deeper_than(document, MAX_DEPTH):
        return Repair(RepairStatus.NOT_POSSIBLE, why=_why_not(document))
    if loses_digits(sent):
        return Repair(RepairStatus.NOT_POSSIBLE, why=_TOO_LONG)
    return _try_each(document, verdict, Work(document, form, means, judge), tries)


def _why_not(document: object) -> str:
    if isinstance(document, dict) and deeper_than(document, MAX_DEPTH):
        return f"The document is nested more than {MAX_DEPTH} levels deep, and only its sender can flatten it."
    if isinstance(document, dict):
        return "The document has no known format, so there are no repair rules for it."
    return "There is no JSON object to repair, and rules cannot guess the intended content."


def _try_each(document: Document, verdict: Verdict, work: Work, tries: Sequence[Try]) -> Repair:
    attempts: list[Attempt] = []
    draft, current = Draft(document), verdict
    for number, one in enumerate(tries, 1):
        before, draft = draft, one(draft, current, work)
        if draft.document is document:
            attempts.append(Attempt(number, one.name, document, (), verdict, one.idle(draft, work), is_idle=True))
            continue
        found = work.candidate(draft)
        current = found.verdict
        is_idle = draft is before
        note = one.idle(draft, work) if is_idle else draft.note
        attempts.append(Attempt(number, one.name, found.document, found.changes, current, note, is_idle))
        if current.valid and current.quality_score >= verdict.quality_score:
            return Repair(RepairStatus.REPAIRED, tuple(attempts), attempts[-1])
    lacking = "with at least the same quality score" if any(one.verdict.valid for one in attempts) else "without errors"
    why = f"{len(attempts)} tries did not produce a document {lacking}. A person must fix the document."
    return Repair(RepairStatus.ESCALATED, tuple(attempts), why=why)


__all__ = [
    "TRIES",
    "Attempt",
    "HeldFiles",
    "Means",
    "Repair",
    "RepairStatus",
    "Try",
    "budget_of",
    "check_inside",
    "is_left_to_model",
    "repair",
    "repair_to_dict",
    "session_context",
    "tries_with",
]


def check_inside(path: str) -> None:
    """Raise `PermissionError` for a session file whose path contains the part `..`, with `/` or `\\` as separator."""
    if ".." in re.split(r"[/\\]", path):
        folder = path.removesuffix(f"/{SESSION_FILE}")
        raise PermissionError(0, f"the part .. is not allowed in {folder}")


@dataclass(slots=True)
class HeldFiles:
    """A `FileStore` in memory, for callers that return the files beside the candidate.

    The store refuses the paths that `handoffaudit repair` refuses, because the receiver of the response writes the
    files.
    """

    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, path: str, content: bytes) -> str:
        check_inside(path)
        if "\0" in path:
            raise ValueError("the path contains a NUL character")
        self.files[path] = content
        return path


def session_context(result: Repair, files: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Return `path` and `content` of the file that the offered candidate refers to.

    `files` are the files that the repair created. Returns None if the session stayed in the document or was dropped, or
    if the repair offers no candidate.
    """
    if result.repaired is None:
        return None
    named = {reference.path for reference in universal.references(result.repaired.document)}
    path = next((path for path in files if path in named), None)
    return None if path is None else {"path": path, "content": orjson.loads(files[path])}
