"""The compression of a document to its token budget, in a fixed order of steps per format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.validation.diff import Change, addition, removal, replacement
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Compression, Document, Format, Places
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.layers.base import FileStore, Summarizer
from handoffaudit.validation.paths import Location, at, dotted_path
from handoffaudit.validation.repair.edit import (
    Budget,
    copy_value,
    key_phrases,
    place_value,
    recompute_hashes,
    remove_field,
    whole_sentences,
    within,
)
from handoffaudit.validation.tokenizers import TokenCounter

LONG_TEXT = 500

SUMMARY_TOKENS = 100

SESSION_FILE = "handoffs/session-context.json"

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Compressed:
    """The result of a compression.

    `document` is the original if no change was needed or possible. `saved` maps each step to the estimated number of
    tokens that it removed.
    """

    document: Document
    changes: tuple[Change, ...]
    tokens: int
    fits: bool
    saved: Mapping[str, int] = field(default_factory=dict)

    def shortfall(self, limit: int) -> str:
        """Describe the savings of each step and the remaining excess, or return an empty text if the budget is met."""
        if self.fits:
            return ""
        steps = ", ".join(f"{step} (about {tokens:,})" for step, tokens in self.saved.items())
        left = f"{self.tokens:,} tokens are left, {self.tokens - limit:,} over the budget of {limit:,}."
        return f"Saved tokens: {steps}. {left}" if steps else f"No step could remove anything. {left}"


def count(document: Document, counter: TokenCounter) -> int:
    """Return the tokens in the compact JSON of a whole document."""
    return counter.count(_text(document))


def compress(
    document: Document,
    form: str,
    budget: Budget,
    *,
    store: FileStore | None = None,
    summarizer: Summarizer | None = None,
) -> Compressed:
    """Return the document within its budget, or as short as possible. The original is not changed.

    `form` is the name of the document's format. A document of an unknown format is not changed. With a `store`, the
    session is written to a file instead of being dropped, if the document names a folder for the file. With a
    `summarizer`, long texts are summarised instead of being cut, if the summary is short enough. The declared token
    count, hash and size are recomputed.
    """
    tokens = count(document, budget.counter)
    if tokens <= budget.limit:
        return Compressed(document, (), tokens, fits=True)
    press = _Press(document, form, budget, tokens, store, summarizer)
    press.run()
    short, resealing = recompute_hashes(document, press.document, form)
    tokens = count(short, budget.counter)
    return Compressed(short, (*press.changes, *resealing), tokens, tokens <= budget.limit, press.saved)


@dataclass(slots=True)
class _Press:
    """One document during its compression.

    `left` is the token count, estimated from the changed parts. An exact count follows only when the estimate meets the
    budget, because counting a megabyte after each step would take minutes.
    """

    document: Document
    form: str
    budget: Budget
    left: int
    store: FileStore | None
    summarizer: Summarizer | None
    changes: list[Change] = field(default_factory=list)
    owned: list[Location] = field(default_factory=list)
    saved: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        given = self.document
        form = BY_NAME.get(self.form)
        for _ in self._steps(form) if form else ():
            if self._meets_budget(given):
                return

    def _steps(self, form: Format) -> Iterator[None]:
        """Run one step per iteration, in order. The caller stops when the budget is met."""
        plan = form.repair.compression
        self._cut_chain(form.places)
        yield
        for location in plan.dropped:
            if location != plan.session:
                self._drop(location)
            elif (refusal := self._store_session(plan)) is not None:
                self._drop(location, f"dropped to meet the token budget; {refusal}" if refusal else "")
            yield
        if plan.summary:
            self._shorten(plan.summary, self._short_summary)
            yield
        for prompt in plan.prompts:
            self._shorten(prompt, key_phrases)
            yield
        long = _long_texts(self.document, plan.texts)
        if long:
            self._copy_roots(plan.texts)
        for location in long:
            self._shorten(location, self._short_text, "shortened long texts")
            yield

    def _copy_roots(self, roots: Sequence[Location]) -> None:
        """Copy the values under the roots, so that later steps can change them in place.

        Creating a new document for each of thousands of texts would take minutes.
        """
        for root in roots:
            value = at(self.document, root)
            if isinstance(value, dict | list):
                self.document = place_value(self.document, root, copy_value(value))
                self.owned.append(root)

    def _place(self, location: Location, value: Any) -> Document:
        if any(location[: len(root)] == root != location for root in self.owned):
            at(self.document, location[:-1])[location[-1]] = value
            return self.document
        document: Document = place_value(self.document, location, value)
        return document

    def _meets_budget(self, given: Document) -> bool:
        if self.left > self.budget.limit:
            return False
        self.left = count(recompute_hashes(given, self.document, self.form)[0], self.budget.counter)
        return self.left <= self.budget.limit

    def _record_step(self, step: str, document: Document, change: Change, gone: Any, come: Any = None) -> None:
        counter = self.budget.counter
        saved = counter.count(_text(gone)) - (0 if come is None else counter.count(_text(come)))
        self.left -= saved
        self.saved[step] = self.saved.get(step, 0) + saved
        self.document = document
        self.changes.append(change)

    def _drop(self, location: Location, why: str = "") -> None:
        value = at(self.document, location, _ABSENT)
        if value is not _ABSENT:
            change = removal(location, value, why or "dropped to meet the token budget")
            self._record_step(f"dropped {dotted_path(location)}", remove_field(self.document, location), change, value)

    def _shorten(self, location: Location, how: Callable[[str], str], step: str = "") -> None:
        text = at(self.document, location)
        if not isinstance(text, str):
            return
        shorter = how(text)
        if len(shorter) < len(text):
            change = replacement(location, text, shorter, "shortened to meet the token budget")
            step = step or f"shortened {dotted_path(location)}"
            self._record_step(step, self._place(location, shorter), change, text, shorter)

    def _short_summary(self, text: str) -> str:
        counter = self.budget.counter
        return whole_sentences(text, lambda part: counter.count(part) < SUMMARY_TOKENS)

    def _short_text(self, text: str) -> str:
        fits = within(LONG_TEXT)
        summary = self.summarizer.shorten(text, LONG_TEXT) if self.summarizer else None
        return summary if summary and fits(summary) else whole_sentences(text, fits)

    def _cut_chain(self, places: Places) -> None:
        chain = at(self.document, places.chain) if places.chain else None
        if places.chain is None or not isinstance(chain, list):
            return
        kept = (at(self.document, places.source or ()), at(self.document, places.target))
        shorter = cut_chain(chain, self.budget.chain_length, kept)
        if shorter is not chain:
            why = "the middle of a long chain cut to meet the token budget"
            change = replacement(places.chain, chain, shorter, why)
            document = place_value(self.document, places.chain, shorter)
            self._record_step("cut the chain", document, change, chain, shorter)

    def _store_session(self, plan: Compression) -> str | None:
        """Store the session as a file that the document refers to. Return the reason on failure, or else None.

        The reason is empty if there is no store, or no session.
        """
        if self.store is None or plan.session is None:
            return ""
        session, folder = at(self.document, plan.session), at(self.document, plan.session_path)
        references = at(self.document, plan.files[:-1])
        references = {} if references is None else references
        files = references.get(plan.files[-1], []) if isinstance(references, dict) else None
        if not isinstance(session, dict):
            return ""
        if not isinstance(folder, str) or not folder:
            return "it could not be stored: the document names no session_path"
        if not isinstance(files, list):
            return "it could not be stored: payload.references.files is not a list"
        try:
            path = f"{folder.rstrip('/')}/{SESSION_FILE}"
            path = self.store.write(path, compact(session)) or path
        # A NUL in the path raises ValueError.
        except (OSError, ValueError) as error:
            return f"it could not be stored: {getattr(error, 'strerror', None) or error}"
        entry = {"path": path, "description": "payload.session of this handoff", "relevance": "important"}
        document = place_value(self.document, plan.files[:-1], {**references, plan.files[-1]: [*files, entry]})
        self.changes.append(addition((*plan.files, len(files)), entry, "the session is stored there"))
        stored = removal(plan.session, session, f"stored as {path} to meet the token budget")
        self._record_step(
            f"stored {dotted_path(plan.session)}", remove_field(document, plan.session), stored, session, entry
        )
        return None


def cut_chain(chain: list[Any], length: int, kept: Sequence[Any] = ()) -> list[Any]:
    """Return a chain of at most `length` entries, with an entry that states the number of removed agents.

    Both ends stay. The whole chain stays if `length` is below 3, or if the middle contains an agent of `kept`. Such a
    chain may be a loop, and a loop must not vanish.

    >>> cut_chain(["a", "b", "c", "d", "e", "f", "g"], 5)
    ['a', 'b', '... 3 more ...', 'f', 'g']
    """
    if length < 3 or len(chain) <= length:
        return chain
    head = (length - 1) // 2
    tail = length - 1 - head
    middle = chain[head : len(chain) - tail]
    if any(agent in middle for agent in kept):
        return chain
    return [*chain[:head], f"... {len(middle)} more ...", *chain[len(chain) - tail :]]


def _long_texts(document: Document, roots: Sequence[Location]) -> list[Location]:
    """Return the places of the long texts, the longest first, so that few texts are shortened."""
    found: list[tuple[int, Location]] = []
    stack = [(root, at(document, root)) for root in roots]
    while stack:
        place, value = stack.pop()
        match value:
            case str() if len(value) > LONG_TEXT:
                found.append((len(value), place))
            case dict():
                stack.extend(((*place, key), item) for key, item in value.items())
            case list():
                stack.extend(((*place, index), item) for index, item in enumerate(value))
    return [place for _, place in sorted(found, key=lambda one: -one[0])]


def _text(value: Any) -> str:
    return compact(value).decode("utf-8", "replace")
