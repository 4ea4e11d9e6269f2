"""Texts made shorter without a model: whole sentences from the start, key phrases, or a plain cut."""

import re
from collections.abc import Callable, Iterator

MARK = "..."
_MOST_PHRASES = 12
_PHRASE_WORDS = 4
_LONGEST_PHRASES = 200
_READ = 8000
# the full stop of "3.5" or "e.g. x" ends no sentence: what follows must be a blank and no lower-case letter
_SENTENCE_END = re.compile(r"[.!?…][\"')\]]?(?=\s+[^\sa-z])|[\u3002\uff01\uff1f]|\n\s*\n")
_BREAK = re.compile(r"[.,;:!?()\[\]{}\"\n\r]+(?:\s|$)|\s[-\u2013\u2014]\s")
_WORD = re.compile(r"[^\s.,;:!?()\[\]{}\"]+(?:[.,:][^\s.,;:!?()\[\]{}\"]+)*")
# words that carry a sentence and not its subject
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
    """The first characters of a text, `...` at the cut; at most `most` characters in all."""
    if len(text) <= most:
        return text
    return text[: max(most - len(MARK), 0)].rstrip() + MARK


def whole_sentences(text: str, fits: Callable[[str], bool]) -> str:
    """As many whole sentences from the start as fit, `...` after them. Where not even the first fits, as many of its
    words; where no word does, nothing but the mark."""
    if fits(text):
        return text
    return _longest(text, _sentence_ends(text), fits, " ") or _longest(text, _word_ends(text), fits, "") or MARK


def within(most: int) -> Callable[[str], bool]:
    """Fits in that many characters."""
    return lambda text: len(text) <= most


def _longest(text: str, ends: list[int], fits: Callable[[str], bool], joint: str) -> str | None:
    """The longest beginning that fits, by bisection."""
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
    """What a text is about: runs of words that carry meaning, each once, in their order; `...` at the end.

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
                yield from _joined(run)
                run = []
            else:
                run.append(word)
        yield from _joined(run)


def _joined(run: list[str]) -> Iterator[str]:
    if run:
        yield " ".join(run[:_PHRASE_WORDS])
