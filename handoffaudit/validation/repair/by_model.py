"""A language model's try at a document, where the rules find nothing to do."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from handoffaudit.validation import formats
from handoffaudit.validation.asking import repair
from handoffaudit.validation.asking.masking import masked
from handoffaudit.validation.asking.prompting import Prompt
from handoffaudit.validation.asking.question import Answer, Unavailable
from handoffaudit.validation.canonical import python_compact
from handoffaudit.validation.differing import difference
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import at
from handoffaudit.validation.ports import LanguageModel
from handoffaudit.validation.reading import MAX_DEPTH, deeper_than
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.repair.draft import Draft
from handoffaudit.validation.repair.keeping import kept, may_be_mended
from handoffaudit.validation.repair.unmasking import LostSecretError, unmasked
from handoffaudit.validation.repair.working import Try, Work
from handoffaudit.validation.verdict import Verdict


@dataclass(slots=True)
class Author:
    """A model as the author of one candidate; asked at most once in a repair. `name` says which model wrote it, `note`
    why there is none: both are empty until it was asked."""

    model: LanguageModel
    prompt: Prompt | None = None
    name: str = ""
    note: str = ""

    @property
    def was_due(self) -> bool:
        return bool(self.name or self.note)

    def mended(self, draft: Draft, verdict: Verdict, work: Work) -> Draft:
        """The draft as the model corrected it, or the same one where it could not, or may not, be asked."""
        issues = [issue for issue in verdict.issues if issue.severity in (Severity.ERROR, Severity.CRITICAL)]
        self.note = why_not_asked(draft.document, issues, work.form)
        if self.note:
            return draft
        try:
            answer = self.model.ask(
                repair.question(draft.document, _tellable(verdict.issues, draft.document), self.prompt)
            )
        except Unavailable as error:
            self.note = f"The model could not be asked: {error.detail}"
            return draft
        return self._written(answer, draft, issues, work.form)

    def _written(self, answer: Answer, draft: Draft, issues: list[Issue], form: str) -> Draft:
        before = draft.document
        try:
            document = _read(answer, before, form)
        except LostSecretError:
            self.note = f"{answer.model} moved or changed a text with a masked secret, which can't be put back."
            return draft
        if document is None:
            self.note = f"{answer.model} did not answer with a document of the format {form}."
            return draft
        document = kept(document, before, form, issues)
        why = f"written by the model {answer.model}"
        changes = tuple(replace(change, why=why) for change in difference(before, document).changes)
        if not changes:
            self.note = f"{answer.model} changed nothing that it may change."
            return draft
        self.name = why
        return Draft(document, (*draft.changes, *changes), draft.moved)


@dataclass(slots=True)
class OrModel:
    """A try by rule, and the model's in its place where it finds nothing to do. Made for one repair."""

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
        mended = self.author.mended(draft, verdict, work)
        self._name, self._note = self.author.name, self.author.note
        return mended


def _tellable(issues: Iterable[Issue], document: Document) -> list[Issue]:
    """The issues, without the words of those that may quote a secret."""
    shown = masked(document)
    return [_without_words(one) if _is_masked(one, document, shown) else one for one in issues]


def _is_masked(issue: Issue, document: Document, shown: Document) -> bool:
    value = at(document, issue.location)
    return isinstance(value, str) and value != at(shown, issue.location)


def _without_words(issue: Issue) -> Issue:
    return replace(issue, message="The value is masked: what is wrong with it is not told.", hint="")


def why_not_asked(document: Document, issues: list[Issue], form: str) -> str:
    """Why the model is not asked, empty where it is."""
    if not any(may_be_mended(issue, form) for issue in issues):
        return "The model was not asked: what is wrong is said by fields that only the sender may change."
    length = len(_shown(document))
    if length > repair.LONGEST_DOCUMENT:
        return (
            f"The model was not asked: the document has {length:,} characters, "
            f"and of more than {repair.LONGEST_DOCUMENT:,} a part would come back."
        )
    return ""


def _shown(document: Document) -> str:
    return python_compact(masked(document)).decode("utf-8", "replace")


def _read(answer: Answer, before: Document, form: str) -> Document | None:
    """The model's document with its secrets, None where it is of another format than the one it was given."""
    document = answer.value
    if not isinstance(document, dict) or deeper_than(document, MAX_DEPTH):
        return None
    # one that only its submission calls so is not recognised before either
    if _format(before) == form != _format(document):
        return None
    found: Document = unmasked(document, masked(before), before)
    return found


def _format(document: Document) -> str:
    return formats.read(document, None, Envelope()).format
