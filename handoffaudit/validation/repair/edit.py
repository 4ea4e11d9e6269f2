"""Edits of a copied document: drafts and the work on them, shortened texts, recomputed hashes and token counts."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from handoffaudit.validation.diff import Change, addition, removal, replacement
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Document, integer
from handoffaudit.validation.json_text import compact, sha256_hex
from handoffaudit.validation.layers.base import FileStore, Summarizer
from handoffaudit.validation.layers.consistency import integrity_issues
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.tokenizers import ESTIMATE_FORMULA, TokenCounter, estimate
from handoffaudit.validation.verdict import Verdict


def place_value(document: Any, location: Location, value: Any) -> Any:
    """Return the document with `value` at `location`. The field may be new, but its parent must exist."""
    if not location:
        return value

    def put(holder: Any) -> Any:
        key = location[-1]
        if isinstance(holder, dict):
            return {**holder, key: value}
        return [*holder[:key], value, *holder[int(key) + 1 :]]

    return _with_holder(document, location[:-1], put)


def remove_field(document: Any, location: Location) -> Any:
    """Return the document without the field at `location`, which must exist."""

    def drop(holder: Any) -> Any:
        # Thousands of fields may be removed one by one, and rebuilding the object each time is slower.
        rest = dict(holder)
        del rest[location[-1]]
        return rest

    return _with_holder(document, location[:-1], drop)


def rename_field(document: Any, location: Location, name: str) -> Any:
    """Return the document with the field at `location` renamed to `name`, in the same position."""

    old = location[-1]

    def rename(holder: Any) -> Any:
        return {name if key == old else key: value for key, value in holder.items()}

    return _with_holder(document, location[:-1], rename)


def copy_value(value: Any) -> Any:
    """Return a deep copy of the lists and objects in a value."""
    if isinstance(value, dict):
        return {key: copy_value(item) for key, item in value.items()}
    return [copy_value(item) for item in value] if isinstance(value, list) else value


def _with_holder(document: Any, location: Location, change: Callable[[Any], Any]) -> Any:
    holders = [document]
    for part in location:
        holders.append(holders[-1][part])
    value = change(holders.pop())
    for part in reversed(location):
        holder = holders.pop()
        if isinstance(holder, dict):
            value = {**holder, part: value}
        else:
            value = [*holder[:part], value, *holder[int(part) + 1 :]]
    return value


ABSENT = object()


@dataclass(frozen=True, slots=True)
class Draft:
    """A document under repair, with its changes.

    `put`, `drop` and `rename` return a new draft, or None if the change is not possible, for example because the parent
    does not exist. `moved` holds the fields that were renamed by similarity. `note` says how the last try missed its
    goal.
    """

    document: Document
    changes: tuple[Change, ...] = ()
    moved: frozenset[Location] = field(default=frozenset())
    note: str = ""

    def value(self, location: Location) -> Any:
        return at(self.document, location, ABSENT)

    def put(self, location: Location, value: Any, why: str) -> "Draft | None":
        if not self._holds(location):
            return None
        before = self.value(location)
        change = addition(location, value, why) if before is ABSENT else replacement(location, before, value, why)
        return Draft(place_value(self.document, location, value), (*self.changes, change), self.moved)

    def drop(self, location: Location, why: str) -> "Draft | None":
        """Remove a field. A list entry cannot be removed, because the later entries would change their places."""
        before = self.value(location)
        if before is ABSENT or not location or isinstance(location[-1], int):
            return None
        change = removal(location, before, why)
        return Draft(remove_field(self.document, location), (*self.changes, change), self.moved - {location})

    def rename(self, location: Location, name: str, why: str) -> "Draft | None":
        """Rename a field to a name that is not taken."""
        new = (*location[:-1], name)
        value = self.value(location)
        if value is ABSENT or isinstance(location[-1], int) or self.value(new) is not ABSENT:
            return None
        changes = (*self.changes, removal(location, value, why), addition(new, value, why))
        return Draft(rename_field(self.document, location, name), changes, self.moved | {new})

    def _holds(self, location: Location) -> bool:
        holder, key = self.value(location[:-1]), location[-1]
        if isinstance(key, int):
            return isinstance(holder, list) and key < len(holder)
        return isinstance(holder, dict)


# The highest token count that the schema of the format `universal` allows.
MOST_TOKENS: Final = 2000

_ABSENT = object()


def recompute_hashes(before: Document, after: Document, form: str) -> tuple[Document, tuple[Change, ...]]:
    """Return `after` with its hash, size and token count recomputed, and the changes made.

    Nothing is recomputed if `before` and `after` are the same object, or if the format is unknown. A hash or a size
    that was wrong in `before` stays wrong, because a repair must not hide that the payload was changed.
    """
    if form not in BY_NAME or before is after:
        return after, ()
    changes = [*_seal_changes(before, after, form)]
    for change in changes:
        after = place_value(after, change.location, change.after)
    counted = _recount_tokens(after, form)
    if counted is not None:
        changes.append(counted)
        after = place_value(after, counted.location, counted.after)
    return after, tuple(changes)


def _seal_changes(before: Document, after: Document, form: str) -> Iterator[Change]:
    was, now = BY_NAME[form].seal(before), BY_NAME[form].seal(after)
    if was is None or now is None or was.value is now.value:
        return
    wrong = {issue.code for issue in integrity_issues(was)}
    new, why = compact(now.value), "recomputed, because the payload changed"
    digest = f"sha256:{sha256_hex(new)}"
    if now.declared_hash not in (None, digest) and "integrity.payload_hash_mismatch" not in wrong:
        yield replacement(now.hash_location, now.declared_hash, digest, why)
    if now.declared_size not in (None, len(new)) and "integrity.size_mismatch" not in wrong:
        yield replacement(now.size_location, now.declared_size, len(new), why)


def _recount_tokens(document: Document, form: str) -> Change | None:
    place = BY_NAME[form].places.token_count
    declared = at(document, place, _ABSENT) if place else _ABSENT
    if place is None or integer(declared) is None:
        return None
    count = token_count(document, place)
    return replacement(place, declared, count, f"recounted ({ESTIMATE_FORMULA})") if count != declared else None


def token_count(document: Document, place: Location) -> int:
    """Return the token count that a document should declare at `place`, at most `MOST_TOKENS`."""
    count = MOST_TOKENS
    # The second round counts the digits of the count itself.
    for _ in range(2):
        count = min(
            round(estimate(compact(place_value(document, place, count)).decode("utf-8", "replace"))), MOST_TOKENS
        )
    return count


MARK = "..."

_MOST_PHRASES = 12

_PHRASE_WORDS = 4

_LONGEST_PHRASES = 200

_READ = 8000

# A full stop ends a sentence only before white space without a lower-case letter after it, unlike in "3.5" or "e.g. x".
_SENTENCE_END = re.compile(r"[.!?…][\"')\]]?(?=\s+[^\sa-z])|[\u3002\uff01\uff1f]|\n\s*\n")

# A match begins only at the first mark of a run, so that a long run takes linear time.
_BREAK = re.compile(r"(?<![.,;:!?()\[\]{}\"])[.,;:!?()\[\]{}\"\n\r]+(?:\s|$)|\s[-\u2013\u2014]\s")

_WORD = re.compile(r"[^\s.,;:!?()\[\]{}\"]+(?:[.,:][^\s.,;:!?()\[\]{}\"]+)*")

# Function words, which say nothing about the subject of a sentence.
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all also am an and any are as at be because been before being but by can could did do does
        each for from get give had has have her him his how i if in into is it its just let make me more most must
        my no not of on only or our out please shall she should so some such than that the their them then there
        these they this those to too under up upon us very was we were what when where which while who whom why will
        with would you your
        """,
    )
)


def cut(text: str, most: int) -> str:
    """Return at most `most` characters of a text, including `...` at the cut."""
    if len(text) <= most:
        return text
    return text[: max(most - len(MARK), 0)].rstrip() + MARK


def whole_sentences(text: str, fits: Callable[[str], bool]) -> str:
    """Return the text if it fits; otherwise, return as many whole sentences from the start as fit, followed by `...`.

    If the first sentence does not fit, return as many of its words as fit. If no word fits, return only the mark.
    """
    if fits(text):
        return text
    return _longest(text, _sentence_ends(text), fits, " ") or _longest(text, _word_ends(text), fits, "") or MARK


def within(most: int) -> Callable[[str], bool]:
    """Return a predicate that accepts texts of at most `most` characters."""
    return lambda text: len(text) <= most


def _longest(text: str, ends: list[int], fits: Callable[[str], bool], joint: str) -> str | None:
    """Return the longest beginning that fits, found by bisection, or None if no beginning fits."""
    best, low, high = None, 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        candidate = f"{text[: ends[middle]].rstrip()}{joint}{MARK}"
        if fits(candidate):
            best, low = candidate, middle + 1
        else:
            high = middle
    return best


def _sentence_ends(text: str) -> list[int]:
    return [match.end() for match in _SENTENCE_END.finditer(text, 0, _READ)]


def _word_ends(text: str) -> list[int]:
    return [match.end() for match in re.finditer(r"\S+", text[:_READ])]


def key_phrases(text: str) -> str:
    """Return the first key phrases of a text, each once and in order, followed by `...`.

    The phrases are at most 12, of at most 4 words each, and have at most 200 characters together. Return the text
    unchanged if the phrases are not shorter than the text.

    >>> key_phrases("Please write the market overview for 2026, and compare the prices of all five suppliers.")
    'write; market overview; 2026; compare; prices; five suppliers...'
    """
    kept: dict[str, str] = {}
    length = 0
    for phrase in _phrases(text[:_READ]):
        if phrase.casefold() in kept:
            continue
        length += len(phrase) + 2
        if len(kept) == _MOST_PHRASES or length > _LONGEST_PHRASES:
            break
        kept[phrase.casefold()] = phrase
    phrases = "; ".join(kept.values()) + MARK
    return phrases if len(phrases) < len(text) else text


def _phrases(text: str) -> Iterator[str]:
    for part in _BREAK.split(text):
        run: list[str] = []
        for word in _WORD.findall(part):
            if word.casefold() in _STOP_WORDS:
                yield from _join_phrase(run)
                run = []
            else:
                run.append(word)
        yield from _join_phrase(run)


def _join_phrase(run: list[str]) -> Iterator[str]:
    if run:
        yield " ".join(run[:_PHRASE_WORDS])


RECOMMENDED_CHAIN = 10


@dataclass(frozen=True, slots=True)
class Budget:
    """A token budget.

    `limit` is in tokens as `counter` counts them. A chain is cut to `chain_length` entries. The length must be above
    the approval length, so that cutting does not bypass the approval of a long chain.
    """

    limit: int
    counter: TokenCounter
    chain_length: int = RECOMMENDED_CHAIN


Judge = Callable[[Document], Verdict]


@dataclass(frozen=True, slots=True)
class Means:
    """The means of a repair.

    `new_id` makes UUIDs of version 4. `known` are values that the caller knows better than the sender, such as the
    tenant. `store`, if given, writes files beside the sender's files.
    """

    budget: Budget
    now: datetime
    new_id: Callable[[], str]
    known: Mapping[Location, Any] = field(default_factory=dict)
    store: FileStore | None = None
    summarizer: Summarizer | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A draft with its hash, size and token count recomputed, and the verdict on the resulting document."""

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
    """One way to fix a document. A try returns a changed draft, or the given draft if there is nothing to do.

    `idle` returns a sentence that says why there is nothing to do.
    """

    @property
    def name(self) -> str: ...
    def idle(self, draft: Draft, work: Work) -> str: ...
    def __call__(self, draft: Draft, verdict: Verdict, work: Work) -> Draft: ...
