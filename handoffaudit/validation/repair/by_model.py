"""The repair by an LLM: the question, the protected fields, and the restored secrets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from handoffaudit.validation.diff import difference, same
from handoffaudit.validation.formats import BY_NAME, read
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, python_compact
from handoffaudit.validation.layers.base import LanguageModel
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import (
    Answer,
    Prompt,
    Question,
    Role,
    Unavailable,
    Use,
    as_text,
    build_instructions,
    default_prompt,
    fence,
    parse_answer,
)
from handoffaudit.validation.prompts.secrets import MASKED
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.repair.edit import Draft, Try, Work, place_value, remove_field
from handoffaudit.validation.text import brief
from handoffaudit.validation.verdict import Verdict

MAX_TOKENS = 8192

# For a longer document, the LLM would return only a part.
LONGEST_DOCUMENT = 20_000

_SCHEMA: Final[Mapping[str, Any]] = {"type": "object"}


def repair_question(
    document: Mapping[str, Any], issues: Iterable[Issue], custom: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    chosen = custom or default_prompt(Use.REPAIR)
    found = [
        {"field": issue.field_path, "code": issue.code, "message": issue.message, "hint": issue.hint}
        for issue in issues
    ]
    return Question(
        use=Use.REPAIR,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.REPAIR, chosen),
        content="\n\n".join(
            (fence("document", as_text(document, LONGEST_DOCUMENT)), fence("findings", as_text(found)))
        ),
        schema=_SCHEMA,
        read=parse_answer,
        max_tokens=MAX_TOKENS,
    )


_ABSENT: Final = object()


def may_be_repaired(issue: Issue, form: str) -> bool:
    """Return whether the issue concerns a place that an LLM may change."""
    return not any(_holds(place, issue.location) for place in BY_NAME[form].repair.protected)


def restore_protected(answer: Document, before: Document, form: str, issues: Iterable[Issue]) -> Document:
    """Return `answer` with the values of `before` at every place that an LLM may not change.

    `issues` are the issues found in `before`.
    """
    faulty = [issue.location for issue in issues if _is_of_form(issue)]
    rules = BY_NAME[form].repair
    for place in rules.protected_unless_faulty:
        answer = _restore(answer, before, place, faulty)
    for place in rules.protected:
        answer = _restore(answer, before, place, ())
    return answer


def _is_of_form(issue: Issue) -> bool:
    return issue.layer == "structure" and issue.severity in (Severity.ERROR, Severity.CRITICAL)


def _holds(place: Location, inner: Location) -> bool:
    return inner[: len(place)] == place


def _restore(answer: Document, before: Document, place: Location, faulty: Sequence[Location]) -> Document:
    """Return `answer` with one place restored. At and below a faulty place, the LLM's value stays."""
    if any(_holds(wrong, place) for wrong in faulty):
        return answer
    was, now = at(before, place, _ABSENT), at(answer, place, _ABSENT)
    if any(_holds(place, wrong) for wrong in faulty) and isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            answer = _restore(answer, before, (*place, key), faulty)
        return answer
    return answer if _is_unchanged(was, now) else _put_back(answer, before, place, was)


def _is_unchanged(was: Any, now: Any) -> bool:
    return was is now if _ABSENT in (was, now) else same(was, now)


def _put_back(answer: Document, before: Document, place: Location, was: Any) -> Document:
    if was is _ABSENT:
        found: Document = remove_field(answer, place)
        return found
    for depth in range(1, len(place)):
        if not isinstance(at(answer, place[:depth]), dict):
            answer = place_value(answer, place[:depth], at(before, place[:depth]))
    restored: Document = place_value(answer, place, was)
    return restored


class LostSecretError(Exception):
    """Raised when a masked value is at a place whose original value is unknown."""


def restore_secrets(answer: Any, masked: Any, before: Any) -> Any:
    """Return `answer` with the values of `before` in place of its masks. `masked` is the copy that the LLM received.

    A value is restored at its own place, and an unchanged entry of a list at any position in the list. Raises
    `LostSecretError` if a mask is left, because a moved secret cannot be assigned safely. Raises the same error if it
    is uncertain which entry of a list a mask belongs to.
    """
    if same(answer, masked):
        return before
    if isinstance(answer, dict) and isinstance(masked, dict):
        # A masked key does not identify the original key.
        _free_of_masks(dict.fromkeys(answer))
        return {key: restore_secrets(value, masked.get(key), before.get(key)) for key, value in answer.items()}
    if isinstance(answer, list) and isinstance(masked, list):
        return _entries(answer, masked, before)
    return _free_of_masks(answer)


def _entries(answer: list[Any], masked: list[Any], before: list[Any]) -> list[Any]:
    """Return the entries of a list with their secrets.

    If an entry moved, or the length changed, only unchanged entries are matched, at any position. Otherwise, entries
    are matched by position. If several changed entries had a secret, these entries may have swapped places. In this
    case, none of them may still contain a mask.
    """
    if len(answer) != len(masked) or _has_moved(answer, masked):
        return [_entry(entry, masked, before) for entry in answer]
    changed = [now for now, was in zip(answer, masked, strict=True) if not same(now, was) and _has_mask(was)]
    if len(changed) > 1:
        _free_of_masks(changed)
    return [restore_secrets(*three) for three in zip(answer, masked, before, strict=True)]


def _has_moved(answer: list[Any], masked: list[Any]) -> bool:
    """Return whether an entry is now at the place of another entry."""
    changed = [now for now, was in zip(answer, masked, strict=True) if not same(now, was)]
    return any(same(now, was) for now in changed for was in masked)


def _entry(entry: Any, masked: list[Any], before: list[Any]) -> Any:
    found = [before[place] for place, one in enumerate(masked) if same(entry, one)]
    if not found:
        return _free_of_masks(entry)
    # Two different secrets look the same once they are masked.
    if any(not same(one, found[0]) for one in found):
        raise LostSecretError
    return found[0]


def _free_of_masks(value: Any) -> Any:
    if _has_mask(value):
        raise LostSecretError
    return value


def _has_mask(value: Any) -> bool:
    level = [value]
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, str) and MASKED in one:
                return True
            if isinstance(one, dict):
                below.extend((*one, *one.values()))
            elif isinstance(one, list):
                below.extend(one)
        level = below
    return False


@dataclass(slots=True)
class Author:
    """An LLM as the author of one candidate, asked at most once per repair.

    `name` says which LLM wrote the candidate, and `note` why there is no candidate. Both are empty before
    the LLM is asked.
    """

    model: LanguageModel
    prompt: Prompt | None = None
    name: str = ""
    note: str = ""

    @property
    def was_due(self) -> bool:
        return bool(self.name or self.note)

    def repair(self, draft: Draft, verdict: Verdict, work: Work) -> Draft:
        """Return the draft corrected by the LLM, or the same draft if the LLM gave no usable correction."""
        issues = [issue for issue in verdict.issues if issue.severity in (Severity.ERROR, Severity.CRITICAL)]
        self.note = why_not_asked(draft.document, issues, work.form)
        if self.note:
            return draft
        try:
            answer = self.model.ask(
                repair_question(draft.document, _hide_secrets(verdict.issues, draft.document), self.prompt)
            )
        except Unavailable as error:
            self.note = f"The LLM made no repair: {error.detail}"
            return draft
        return self._apply_answer(answer, draft, issues, work.form)

    def _apply_answer(self, answer: Answer, draft: Draft, issues: list[Issue], form: str) -> Draft:
        before = draft.document
        try:
            document = _read(answer, before, form)
        except LostSecretError:
            self.note = f"{answer.model} moved or changed something with a masked secret, which cannot be restored."
            return draft
        if document is None:
            self.note = f"{answer.model} did not answer with a document of the format {form}."
            return draft
        document = restore_protected(document, before, form, issues)
        why = f"written by the LLM {answer.model}"
        changes = tuple(replace(change, why=why) for change in difference(before, document).changes)
        if not changes:
            self.note = f"{answer.model} changed only protected fields, or nothing."
            return draft
        self.name = why
        return Draft(document, (*draft.changes, *changes), draft.moved)


@dataclass(slots=True)
class OrModel:
    """A rule-based try that falls back to the LLM if the rule has nothing to do.

    An instance serves one repair.
    """

    rule: Try
    author: Author
    _name: str = field(default="", init=False)
    _note: str = field(default="", init=False)

    @property
    def name(self) -> str:
        return self._name or self.rule.name

    def idle(self, draft: Draft, work: Work) -> str:
        return f"{self.rule.idle(draft, work)} {self._note}".strip()

    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft:
        further = self.rule(draft, verdict, work)
        if further is not draft or self.author.was_due or verdict.valid:
            return further
        fixed = self.author.repair(draft, verdict, work)
        self._name, self._note = self.author.name, self.author.note
        return fixed


def _hide_secrets(issues: Iterable[Issue], document: Document) -> list[Issue]:
    """Return the issues. An issue that may quote a secret gets a neutral message and no hint."""
    secrets = list(_secrets(document, mask_secrets(document)))
    return [_without_words(one) if _may_quote(one, document, secrets) else one for one in issues]


def _secrets(value: Any, masked: Any) -> Iterator[Any]:
    """Yield the values that differ from their masked copies, in the form of the values of an issue."""
    if isinstance(value, dict | list):
        pairs = zip(*(one.values() if isinstance(one, dict) else one for one in (value, masked)), strict=True)
        for pair in pairs:
            yield from _secrets(*pair)
    elif value != masked:
        yield brief(value)


def _may_quote(issue: Issue, document: Document, secrets: Sequence[Any]) -> bool:
    # A message does not quote an object or a list. The message of a comparison quotes both values.
    quoted = (at(document, issue.location), issue.expected, issue.actual)
    return any(brief(value) in secrets for value in quoted)


def _without_words(issue: Issue) -> Issue:
    return msgspec.structs.replace(issue, message="The value is masked, so the message is hidden.", hint="")


def why_not_asked(document: Document, issues: list[Issue], form: str) -> str:
    """Return why the LLM is not asked, or an empty text if it is asked."""
    if not any(may_be_repaired(issue, form) for issue in issues):
        return "The LLM was not asked: the errors concern fields that only the sender may change."
    length = len(_dump_masked(document))
    if length > LONGEST_DOCUMENT:
        return (
            f"The LLM was not asked: the document has {length:,} characters, and the limit is {LONGEST_DOCUMENT:,}, "
            "because the LLM would return only a part of a longer document."
        )
    return ""


def _dump_masked(document: Document) -> str:
    return python_compact(mask_secrets(document)).decode("utf-8", "replace")


def _read(answer: Answer, before: Document, form: str) -> Document | None:
    """Return the LLM's document with its secrets restored.

    Return None if the answer is not an object, is nested too deep, or has another format than the original.
    """
    document = answer.value
    if not isinstance(document, dict) or deeper_than(document, MAX_DEPTH):
        return None
    # If the original does not show its format, because only the submission names it, the formats cannot be compared.
    if _format(before) == form != _format(document):
        return None
    found: Document = restore_secrets(document, mask_secrets(before), before)
    return found


def _format(document: Document) -> str:
    return read(document, None, Envelope()).format
