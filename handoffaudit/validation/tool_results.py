"""Tool results as evidence: masked, cut to size, and without the values that the call itself brought in.

A value that first appears in the arguments of a call is not evidence, although the result repeats it. Otherwise an echo
tool, or an LLM that is called as a tool, would confirm whatever an agent invents.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from handoffaudit.validation.claims import Source
from handoffaudit.validation.json_text import canonical, compact
from handoffaudit.validation.layers.grounding.records import MAX_LEAVES, leaves
from handoffaudit.validation.layers.grounding.sources import plain_words
from handoffaudit.validation.layers.grounding.values import (
    TextValue,
    fold_case,
    name_words,
    number_of,
    readings_of,
    values_in,
)
from handoffaudit.validation.layers.grounding.vocabulary import NOT_NAMES, Day, days_of, minutes_of
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.secrets import mask_text

MOST_TEXT: Final = 16 * 1024
# Values are taken from at most this many characters of a result. Later characters count only for the hash. A call gives
# no evidence if its arguments have more characters, or at least `MAX_LEAVES` texts and numbers.
MOST_READ: Final = 64 * 1024

# Stands for the arguments of a call that are too long to be read.
TOO_LONG: Final = object()

_MOST_VALUES: Final = 2_000
# A text of `MOST_READ` characters never has more values than this, so no value is skipped.
_ALL_VALUES: Final = MOST_READ
_ECHOED: Final = "…"
# A result repeats a text of the arguments if it has the whole text, or this many words of a longer text in a row.
_MOST_WORDS: Final = 5
# A text of fewer words, all in lower case, counts as repeated only if the text stands alone in quotation marks, as in
# JSON.
_FEWEST_WORDS: Final = 3
_QUOTES: Final = frozenset("\"'`\\\u201c\u201d\u2018\u2019\u00ab\u00bb")
_WORD: Final = re.compile("[^\\W_]+(?:[\u0300-\u036f]+[^\\W_]*)*")
_LONGEST_LABEL: Final = 60
# Images and other files in base64. Files have no values, and a few files would fill the space of a trace.
_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{1000,}={0,2}")
_FILE: Final = "…"
_NO_LABEL: Final = re.compile(r"[^\w@/+-]+")
# A key such as `order_id` or `orderId` is the name of a field. All other keys of arguments can contain values.
_FIELD: Final = re.compile(r"[a-z_][A-Za-z_]*")


class Grade(StrEnum):
    """The origin of a result: captured outside or inside the sender's process, or only stated by a sender."""

    OUTSIDE = "outside"
    IN_PROCESS = "in_process"
    SAID = "said"

    @property
    def is_evidence(self) -> bool:
        return self is not Grade.SAID

    @property
    def rank(self) -> int:
        """Return the place of the grade, 0 for the best."""
        return _GRADES.index(self)

    @property
    def as_good(self) -> "tuple[Grade, ...]":
        """Return this grade and all better grades."""
        return _GRADES[: self.rank + 1]


_GRADES: Final = tuple(Grade)
# The grades that count as evidence, the best grade first.
EVIDENCE: Final = (Grade.OUTSIDE, Grade.IN_PROCESS)


@dataclass(frozen=True, slots=True)
class Capture:
    """The part of a result that is stored.

    `content` is the masked result, with `…` in place of each base64 file. A content of more than 16 KiB or `MOST_READ`
    characters is replaced by the beginning of its text (`is_cut`). `evidence` is the content without the values in the
    arguments of the call, or only `…` if the arguments are too long to be read. `values` are the values of the text
    after the cut, without the values in the arguments. `sha256` is the hash of the whole result.
    """

    sha256: str
    content: Any
    evidence: Any
    is_cut: bool
    values: tuple[str, ...]


def capture(result: Any, arguments: Any = None) -> Capture:
    """Return the parts of a result to store. The result is any JSON value.

    `arguments` are the arguments of the call, or `TOO_LONG`. They are not stored.
    """
    content, rest, is_cut = _mask(_drop_files(result))
    echo = _Echo(arguments)
    digest = sha256(canonical(result)).hexdigest()
    if echo.is_cut:
        # A value of the arguments after the part that was read would pass as evidence.
        return Capture(digest, content, _ECHOED, is_cut, ())
    found = (value.text for value in values_in(echo.blank_text(rest), quotes=False, most=_MOST_VALUES))
    values = tuple(dict.fromkeys(text for text in found if text != _ECHOED))
    return Capture(digest, content, echo.blank(content), is_cut, values)


def _drop_files(result: Any) -> Any:
    """Return a JSON value with `…` for each long base64 text."""
    match result:
        case str():
            return _BASE64.sub(_FILE, result)
        case dict():
            return {key: _drop_files(one) for key, one in result.items()}
        case list():
            return [_drop_files(one) for one in result]
        case _:
            return result


def _mask(result: Any) -> tuple[Any, str, bool]:
    """Return the masked result and an empty text, or the beginning and the rest of its masked text.

    The third value says whether the first value is only a beginning.
    """
    text = _text_of(result)
    is_long = len(text) > MOST_READ
    if is_long:
        masked = text = mask_text(text[:MOST_READ])
    else:
        masked = mask_secrets(result)
        text = _text_of(masked)
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= MOST_TEXT:
        # A long result can fit after all, if its beginning is mostly secrets.
        return masked, "", is_long
    beginning = raw[:MOST_TEXT].decode("utf-8", "ignore")
    return beginning, text[len(beginning) :], True


def _text_of(result: Any) -> str:
    return result if isinstance(result, str) else compact(result).decode("utf-8", "replace")


def label_of(tool: str, call_id: str) -> str:
    """Return the name of a result in verdicts: `tool_results[get_order #call_17]`."""
    return f"tool_results[{_plain(tool)} #{_plain(call_id)}]"


def is_result(place: str) -> bool:
    """Return whether a place that a verdict names is in a tool result."""
    return place.startswith("tool_results[")


def label_in(place: str) -> str:
    """Return the label at the beginning of a place in a tool result."""
    return f"{place.partition(']')[0]}]"


def _plain(name: str) -> str:
    """Return the name without the characters that have a meaning in the path of a source.

    A name that is too long becomes its hash.
    """
    plain = _NO_LABEL.sub("_", name)
    return plain if len(plain) <= _LONGEST_LABEL else sha256(name.encode("utf-8", "replace")).hexdigest()[:16]


def sources_of(label: str, evidence: Any, values: Iterable[str]) -> Iterator[Source]:
    """Yield the sources that a stored result gives, named by their paths in the result."""
    yield from leaves(evidence, f"{label}.result")
    rest = "\n".join(values)
    if rest:
        yield Source(f"{label}.result, after {MOST_TEXT // 1024} KiB", rest)


class _Echo:
    """The values and keys of a call's arguments, in the normal forms that two spellings of one value share."""

    def __init__(self, arguments: Any) -> None:
        found = leaves(arguments, "")
        # Lists and objects often repeat a text, so repeated texts are read only once.
        texts = list(dict.fromkeys([*(source.text for source in found), *_keys_with_values(arguments)]))
        self.numbers: set[float] = set()
        self.days: set[Day] = set()
        self.minutes: set[int | None] = set()
        self.texts = {text.casefold() for text in texts if len(text) > 1}
        self.words: set[str] = set()
        # The words of names, and runs of words joined by blanks. Runs of digits alone are in `numbers` and `days`.
        self.runs: set[str] = set()
        # One or two plain words, such as the words of a search. Most genuine results have such words in sentences, so
        # the words count as repeated only if they stand alone in quotation marks.
        self.plain: set[str] = set()
        read = 0
        for text in texts:
            self._add(text[: max(MOST_READ - read, 0)])
            read += len(text)
        self.runs = {run for run in self.runs if not run.replace(" ", "").isdecimal()}
        self.is_cut = arguments is TOO_LONG or read > MOST_READ or len(found) >= MAX_LEAVES

    def _add(self, text: str) -> None:
        self.words.update(plain_words(text))
        found = _WORD.findall(text)
        words = [fold_case(word) for word in found]
        if words and len(text) > 1 and not NOT_NAMES.issuperset(words):
            is_plain = len(words) < _FEWEST_WORDS and all(word.islower() or word.isdecimal() for word in found)
            (self.plain if is_plain else self.runs).update(_runs_of(words, min(len(words), _MOST_WORDS)))
        for value in values_in(text, quotes=False, most=_ALL_VALUES):
            match value.kind:
                case "number":
                    self.numbers.update(_numbers_of(value))
                case "date":
                    self.days.update(days_of(value.text))
                case "time":
                    self.minutes.add(minutes_of(value.text))
                case "identifier":
                    self.texts.add(_identifier(value))
                case "name":
                    self.runs.update(fold_case(word) for _, word in name_words(value.text))

    def blank(self, value: Any) -> Any:
        """Return a JSON value with `…` for each value that the arguments contain."""
        if not self.texts and not self.numbers:
            return value
        match value:
            case str():
                return self.blank_text(value)
            case dict():
                return {self.blank_key(key, at): self.blank(one) for at, (key, one) in enumerate(value.items())}
            case list():
                return [self.blank(one) for one in value]
            case int() | float() if not isinstance(value, bool) and value in self.numbers:
                return _ECHOED
            case _:
                return value

    def blank_key(self, key: str, at: int) -> str:
        """Return the key without values of the arguments. `at` distinguishes keys that become equal."""
        blank = self.blank_text(key) if key.casefold() in self.texts or not key.isidentifier() else key
        return key if blank == key else f"{blank}{at}"

    def blank_text(self, text: str) -> str:
        if not text or text.casefold() in self.texts:
            return _ECHOED if text else text
        spans = sorted(self._spans(text))
        parts, done = [], 0
        for start, end in spans:
            if start >= done:
                parts += [text[done:start], _ECHOED]
            done = max(done, end)
        return "".join([*parts, text[done:]]) if spans else text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        values = values_in(text, quotes=False, most=_ALL_VALUES)
        if self.runs or self.plain:
            yield from self._repeated_runs(text, [value for value in values if value.kind != "name"])
        for value in values:
            if value.kind == "name":
                for offset, word in name_words(value.text):
                    if fold_case(word) in self.words:
                        yield value.start + offset, value.start + offset + len(word)
            elif self._holds(value):
                yield value.start, value.end

    def _repeated_runs(self, text: str, values: list[TextValue]) -> Iterator[tuple[int, int]]:
        """Yield the spans of the runs that `text` repeats. A run that is only a part of a value does not count."""
        starts = [value.start for value in values]

        def is_inside(at: int) -> bool:
            before = bisect_left(starts, at) - 1
            return before >= 0 and values[before].end > at

        found = list(_WORD.finditer(text))
        words = [fold_case(match.group()) for match in found]
        for size in range(1, _MOST_WORDS + 1):
            for at, run in enumerate(_runs_of(words, size)):
                if run not in self.runs and run not in self.plain:
                    continue
                start, end = found[at].start(), found[at + size - 1].end()
                is_repeated = run in self.runs or {text[start - 1 : start], text[end : end + 1]} <= _QUOTES
                if is_repeated and not (is_inside(start) or is_inside(end)):
                    yield start, end

    def _holds(self, value: TextValue) -> bool:
        match value.kind:
            case "number":
                return not self.numbers.isdisjoint(_numbers_of(value))
            case "date":
                return not self.days.isdisjoint(days_of(value.text))
            case "time":
                return minutes_of(value.text) in self.minutes
            case _:
                return _identifier(value) in self.texts


def _runs_of(words: list[str], size: int) -> Iterator[str]:
    return (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))


def _keys_with_values(arguments: Any) -> Iterator[str]:
    """Yield the keys of a JSON value that are not only names of fields."""
    waiting = [arguments]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield from (key for key in map(str, item) if not _FIELD.fullmatch(key))
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item


def _identifier(value: TextValue) -> str:
    return value.text.casefold().lstrip("#")


def _numbers_of(value: TextValue) -> Iterable[float]:
    number = number_of(value)
    return [number.value] if number else readings_of(value.figure) if value.figure[:1].isdigit() else []
