"""The lookup of the concrete values of a claim in the sources."""

import re
from collections.abc import Callable

import msgspec

from handoffaudit.validation.claims import Status
from handoffaudit.validation.layers.grounding.derived import EXPONENT, Derivation, as_share, find_rounded
from handoffaudit.validation.layers.grounding.forms import Form, TextForms
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.suggestions import near_day, near_time
from handoffaudit.validation.layers.grounding.values import (
    Number,
    TextValue,
    ValueKind,
    fold_case,
    name_words,
    number_of,
    opens_sentence,
)
from handoffaudit.validation.layers.grounding.vocabulary import (
    QUARTERS,
    WORDS_OF_NUMBERS,
    ZONES,
    conversions_of,
    days_of,
    flat_text,
    is_foreign,
    minutes_of,
)
from handoffaudit.validation.text import lower_in_place

_MAX_TRIES = 40

_MAX_LIKENESSES = 4

_SMALL = 12

_QUOTED_WORDS = 3

# A word of this length is written the same in every form of a quote: contractions are shorter or have an apostrophe.
_LONG_WORD = re.compile(r"[a-z]{7,}")

_LONG_NUMBER = 1e6

_STEM = 4

_NEAR = 40

_LONGEST_ACRONYM = 6

_FEWEST_CAPITALS = 2

_QUARTER = re.compile(r"q([1-4])|([1-4])q")

_SEPARATORS = re.compile(r"[\W_]+")

# Shorter runs of letters and digits stand side by side by chance.
_SHORTEST_JOINED = 5

_FEWEST_GROUPED = 7

_OF_PHONE_NUMBER = frozenset("0123456789 +-/()")

_SPACED_AMOUNT = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?:,\d{1,2})?(?!\d)")

# A unit may stand behind the last of several numbers: `40 x 30 x 15 cm`, `2-8 kg`.
_UNIT = re.compile(r"(?: ?[x\u00d7\u2013-] ?\d[\d.,]*)*[ -]?(\u00b0 ?[CF]\b|[$\u20ac\u00a3]|[^\W\d_]{1,12})")

_MONEY_SIGNS = ("$", "\u20ac", "\u00a3")

_MONEY_BEFORE = re.compile(r"(?:[$\u20ac\u00a3]|\b(?:EUR|USD|GBP|PLN|CHF|CAD|AUD)) ?[\d.,]+$")

_ONE_GROUP = re.compile(r"[1-9]\d{0,2}\.\d{3}")

_SMALLEST_GROUPED = 1_000

_ZONE = re.compile(r"(?::\d\d)? ?\(?([A-Z]{1,4})\b")

_MINUTES_OF_DAY = 24 * 60

_CODE_AFTER = re.compile(r"[\w/' -]{0,30}\(([A-Z]{2,6})\)")

_CODE_BEFORE = re.compile(r"\b([A-Z]{2,6}) \([\w/' -]{0,30}$")


# The forms of text in which a number may follow from other numbers.
_CALCULATED = frozenset({Form.STATEMENT, Form.FORMULA, Form.GUESS, Form.PLAN})


class Found(msgspec.Struct, frozen=True, gc=False):
    """The result of looking up one value. `part` is the span of the part that was not found."""

    status: Status
    where: str = ""
    part: tuple[int, int] | None = None


_MISSING = Found("ungrounded")


class Lookup:
    """The lookup of the values of one claim in the sources.

    The lookup keeps the grounded and derived numbers of the claim, because other numbers may be calculated from them.
    """

    def __init__(self, text: str, index: SourceIndex) -> None:
        self.text = text
        self.index = index
        self._derivation: Derivation | None = None
        self._grounded: list[TextValue] = []
        self.forms = TextForms(text)
        self.tries = _MAX_TRIES
        self.likenesses = _MAX_LIKENESSES

    def find(self, value: TextValue) -> Found | None:
        """Return the result for the value, or None if the value cannot be judged."""
        kind = value.kind
        if kind == "number":
            return self.number(value)
        at = self.index.find(lower_in_place(value.text))
        return self._at(at, len(value.text)) if at >= 0 else _WAYS[kind](self, value)

    def _at(self, at: int, size: int) -> Found:
        return Found("grounded", self.index.where(at, size))

    def _locate_text(self, text: str) -> Found:
        at = self.index.find(lower_in_place(text))
        return self._at(at, len(text)) if at >= 0 else Found("grounded")

    def number(self, value: TextValue) -> Found | None:
        at = self.index.find(lower_in_place(value.text))
        if at >= 0:
            self._grounded.append(value)
            return self._at(at, len(value.text))
        number = number_of(value)
        at = self.index.find(value.figure) if value.figure != value.text else -1
        if at < 0 and number and number.value in WORDS_OF_NUMBERS:
            at = self.index.find(WORDS_OF_NUMBERS[int(number.value)])
        if number:
            plain = at >= 0 and number.step <= 1
            found = self._at(at, len(value.figure)) if plain else self._number(value, number)
            if found is _MISSING:
                found = self._otherwise(value, number)
            if found and found.status != "ungrounded":
                self._grounded.append(value)
            return found
        return self._at(at, len(value.figure)) if at >= 0 else None

    def _way(self, number: Number) -> str:
        """Return how a number follows from other numbers.

        The grounded and derived numbers of the claim are parsed only here, when a derivation is needed.
        """
        if self._derivation is None:
            self._derivation = Derivation(self.index.operands)
        for value in self._grounded:
            stated = number_of(value)
            if stated:
                self._derivation.state(stated.value)
        self._grounded.clear()
        return self._derivation.way(number)

    def _number(self, value: TextValue, number: Number) -> Found | None:
        given = self.index.numbers
        if number.value in given:
            return self._locate_text(given[number.value])
        by_size = self.index.in_order_of_size
        near = find_rounded(number, by_size)
        if near is not None:
            return Found("derived", f"rounded from {given[near]}")
        share = as_share(number, by_size)
        if share is not None:
            return self._locate_text(given[share])
        if number.value <= _SMALL and number.step == 1 and not number.percent:
            return None
        if self.tries and number.value < _LONG_NUMBER and self.forms.of(value.start, value.end) in _CALCULATED:
            self.tries -= 1
            way = self._way(number)
            if way:
                return Found("derived", way)
        return _MISSING

    def date(self, value: TextValue) -> Found | None:
        claimed = days_of(value.text)
        if not claimed:
            return None
        places = [place for one in claimed if (place := self.index.known_days.first(one)) is not None]
        if places:
            return self._locate_text(list(self.index.days.values())[min(places)])
        for day in claimed:
            year, month, _ = day
            if day[2] is None and year and month and self.index.find(f"{year}-{month:02}") >= 0:
                return self._locate_text(f"{year}-{month:02}")
            if self.index.nearby.days_of_epochs.first(day) is not None:
                return Found("derived", "a time in seconds since 1970")
        return _MISSING

    def time(self, value: TextValue) -> Found | None:
        minutes = minutes_of(value.text)
        if minutes is None:
            return None
        if minutes in self.index.minutes:
            return self._locate_text(self.index.minutes[minutes])
        zone = _ZONE.match(self.text, value.end)
        offset = ZONES.get(zone[1]) if zone else None
        if offset is None and not self.index.nearby.epochs:
            return _MISSING
        utc = (minutes - (offset or 0)) % _MINUTES_OF_DAY
        return Found("derived", "the same time in UTC") if utc in self.index.nearby.utc_minutes else _MISSING

    def name(self, value: TextValue) -> Found | None:
        words = name_words(value.text)
        if not words:
            return None
        unknown = [one for one in words if not self._is_known(one[1])]
        if (
            len(words) > 1
            and unknown
            and unknown[0] == words[0]
            and words[0][0] == 0
            and opens_sentence(self.text, value.start)
        ):
            unknown = unknown[1:]
        if not unknown:
            return Found("grounded", self._first_word(words[0][1]))
        acronym = lower_in_place("".join(word[0] for _, word in words))
        if len(words) > 1 and (acronym in self.index.words or f"{acronym}a" in self.index.words):
            return self._locate_text(acronym)
        code = self._code_beside(value)
        if code:
            return self._locate_text(code)
        (first, _), (last, last_word) = unknown[0], unknown[-1]
        return Found("ungrounded", part=(value.start + first, value.start + last + len(last_word)))

    def _code_beside(self, value: TextValue) -> str:
        """Return the grounded code beside a name that spells the code out: `Boston (BOS)`, `ORD (Chicago)`."""
        text, start = self.text, max(0, value.start - _NEAR)
        if text.find("(", start, value.end + _NEAR) < 0:
            return ""
        after = _CODE_AFTER.match(text, value.end)
        before = _CODE_BEFORE.search(text, start, value.start)
        codes = (lower_in_place(match[1]) for match in (after, before) if match)
        return next((code for code in codes if code in self.index.words), "")

    def _is_known(self, word: str) -> bool:
        known = self.index.known_words
        if word not in known:
            known[word] = self._has_word(word)
        return known[word]

    def _has_word(self, word: str) -> bool:
        plain = fold_case(word)
        if plain in self.index.words or self._is_acronym(word, plain):
            return True
        quarter = _QUARTER.fullmatch(plain) if len(plain) == 2 else None
        if quarter:
            return any(written in self.index.flat for written in QUARTERS[int(quarter[1] or quarter[2])])
        stem = plain[: max(_STEM, len(plain) - 2)]
        return (len(plain) > _STEM and self.index.begins_word(stem)) or self.index.has_country(plain)

    def _is_acronym(self, word: str, plain: str) -> bool:
        """Return whether the sources have the words of an acronym, or the singular of its plural (`GANs`)."""
        if len(word) > _LONGEST_ACRONYM or word[1:].islower() or sum(map(str.isupper, word)) < _FEWEST_CAPITALS:
            return False
        singular = plain[:-1] if word.endswith("s") else plain
        return singular in self.index.words or (len(singular) > 1 and singular in self.index.initials)

    def _first_word(self, word: str) -> str:
        at = self.index.find(lower_in_place(word))
        return self.index.where(at, len(word)) if at >= 0 else ""

    def closest(self, value: TextValue, missing: str) -> str:
        """Return the value of the sources that is most similar to `missing`, the part of `value` without a source.

        The result is empty if nothing is similar, or if the similar value is a secret. Only the first values of a claim
        are compared, because a comparison takes longer than a lookup.
        """
        self.likenesses -= 1
        near = self._find_near(value, missing) if self.likenesses >= 0 else ""
        return near if near and near in self.index.masked else ""

    def _find_near(self, value: TextValue, missing: str) -> str:
        kind = value.kind
        if kind == "number":
            number = number_of(value)
            return self.index.nearby.number(value, number) if number else ""
        if kind == "date":
            written = list(self.index.days.values())
            near = [place for day in days_of(value.text) if (place := near_day(day, self.index.known_days)) is not None]
            return written[min(near)] if near else ""
        if kind == "time":
            minutes = minutes_of(value.text)
            close = None if minutes is None else near_time(minutes, self.index.minutes)
            return "" if close is None else self.index.minutes[close]
        if kind == "name":
            words = name_words(missing)
            return self.index.nearby.name(words[0][1]) if words else ""
        return self.index.nearby.identifier(value.text) if kind == "identifier" else ""

    def quote(self, value: TextValue) -> Found | None:
        wanted = flat_text(lower_in_place(value.text)).strip(" .,;:!?…")
        # Most quotes are in the sources as written. `flat` is computed only for other quotes.
        if wanted and (wanted in self.index.folded or (self._has_long_word(wanted) and wanted in self.index.flat)):
            return Found("grounded", self._first_word(value.text.split()[0]))
        return _MISSING if wanted.count(" ") + 1 >= _QUOTED_WORDS else None

    def _has_long_word(self, wanted: str) -> bool:
        """Return False if the sources lack the first long word of a quote, and therefore the quote."""
        word = _LONG_WORD.search(wanted)
        return word is None or word.group() in self.index.folded

    def identifier(self, value: TextValue) -> Found | None:
        lowered = lower_in_place(value.text)
        wanted = lowered.partition("://")[2].rstrip("/") or lowered.lstrip("#")
        at = self.index.folded.find(wanted)
        if at >= 0:
            return self._at(at, len(wanted))
        written = self.index.numbers.get(float(wanted)) if EXPONENT.fullmatch(wanted) else None
        if written is not None:
            return self._locate_text(written)
        # The sources may have `LH 454` for LH454, groups of an account number without blanks, and `spo2` as a key.
        joined = fold_case(_SEPARATORS.sub("", wanted))
        is_known = len(joined) >= _SHORTEST_JOINED and self.index.nearby.has_joined(joined)
        return Found("grounded") if is_known or wanted in self.index.words else _MISSING

    def _otherwise(self, value: TextValue, number: Number) -> Found:
        """Return the result for a number that the sources may have in another unit or in other groups of figures.

        The number may also be the sum or the mean of a column of structured data.
        """
        if self._is_grouped(value):
            return Found("grounded")
        thousands = self._thousands(value, number)
        if thousands:
            return thousands
        judge = self.index.judge
        if judge is not None and find_rounded(number, judge.records.totals) is not None:
            return Found("derived", "the sum or the mean of a column")
        text, end = self.text, value.start + len(value.figure)
        unit = _UNIT.match(text, end)
        money = text[value.start - 1 : value.start] in _MONEY_SIGNS or _MONEY_BEFORE.search(text, max(0, end - 30), end)
        for other, factor, summand in conversions_of("$" if money else unit[1] if unit else ""):
            step = number.step * factor
            near = find_rounded(Number(number.value * factor + summand, step), self.index.in_order_of_size)
            if near and step <= near / 10 and other in self.index.units:
                return Found("derived", f"converted from {self.index.numbers[near]}")
        return _MISSING

    def _thousands(self, value: TextValue, number: Number) -> Found | None:
        """Return the result for a number such as `3.400` if the dot separates thousands, as in many languages."""
        if _ONE_GROUP.fullmatch(value.figure):
            found = self._number(value, Number(number.value * 1e3, 1.0)) if is_foreign(self.text) else _MISSING
            return found if found is not _MISSING else None
        may_group = self.tries and number.step == 1 and _SMALLEST_GROUPED <= number.value < _LONG_NUMBER
        if may_group and self.index.nearby.is_foreign:
            self.tries -= 1
            written = f"{number.value:,.0f}".replace(",", ".")
            at = self.index.find(written)
            return self._at(at, len(written)) if at >= 0 else None
        return None

    def _is_grouped(self, value: TextValue) -> bool:
        """Return whether the value is a group of a longer number, or of an amount, that the sources write otherwise.

        For example, `(415) 555-0132` is `4155550132`, `0711 20500` is `+49 711 20500`, and `1 299,99` is `1299.99`.
        """
        for match in _SPACED_AMOUNT.finditer(self.text, max(0, value.start - _NEAR), value.end + _NEAR):
            if match.start() <= value.start and value.end <= match.end():
                plain = float(match.group().replace(" ", "").replace(",", "."))
                if plain in self.index.numbers:
                    return True
        if not self.tries or value.unit or not value.figure.isdecimal():
            return False
        text, start, end = self.text, value.start, value.end
        lowest, highest = start - _NEAR, end + _NEAR
        while start > max(0, lowest) and text[start - 1] in _OF_PHONE_NUMBER:
            start -= 1
        while end < min(len(text), highest) and text[end] in _OF_PHONE_NUMBER:
            end += 1
        digits = _SEPARATORS.sub("", text[start:end].replace("(0)", ""))
        if not _FEWEST_GROUPED <= len(digits) <= _NEAR:
            return False
        self.tries -= 1
        local = digits.lstrip("0")
        is_abroad = digits.startswith("00") or "+" in text[start:end]
        wanted = (digits, local, *(local[size:] for size in (1, 2, 3) if is_abroad))
        return any(self.index.nearby.has_joined(one, 4) for one in wanted if len(one) >= _FEWEST_GROUPED)


_WAYS: dict[ValueKind, Callable[[Lookup, TextValue], Found | None]] = {
    "date": Lookup.date,
    "time": Lookup.time,
    "name": Lookup.name,
    "quote": Lookup.quote,
    "identifier": Lookup.identifier,
}
