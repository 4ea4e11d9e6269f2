"""Calculations that a text states, such as `25 + 17 = 42`, and whether they are right."""

import re
from collections.abc import Container, Iterator, Sequence
from itertools import islice, pairwise
from math import isfinite, sqrt
from typing import Final, NamedTuple

_MOST = 200
_MOST_CHARACTERS = 50_000
_MOST_TOKENS = 120
_MOST_EXPONENT = 64
_DEEPEST = 30
# Whole numbers up to this limit are often plain counts, which need no source.
_SMALL = 12
# A difference above this share of the value cannot come from the rounding of an intermediate result.
_ROUNDED = 0.01

_EQUALS = re.compile(r"(?:[=\u2248]|\\approx|\\implies|\\Rightarrow|\\to\b)&?")
_CLAIMS_EQUAL = ("=", "\u2248", "\\approx")
# Every line with a calculation matches. Only blanks, currency signs and LaTeX commands may precede the stated number.
_STATES = re.compile(r"(?:[=\u2248]|\\approx)[^\w\\=\u2248]*[\d\\]")
_DIGITS = re.compile(r"\d+")
# A calculation has at least two operands and the stated result.
_FEWEST_NUMBERS = 3
_CHUNK = re.compile(r"(?:(?!\\\\|[;,.?!:]\s|\n)[\s\S])+")
_BULLET = re.compile(r"\s*(?:[-*\u2022+]|\d{1,2}[.)])\s+")
_TOKEN = re.compile(
    r"""(?P<skip>\\(?:text|mathrm|mathbf|textbf|operatorname)\{[^{}]{0,100}\}
      |\\(?:left|right|displaystyle|quad|[,;:!\ ]|[()\[\]])
      |[$\u20ac\u00a3\s&*]*\*\*[\s]|\s+|[$\u20ac\u00a3&\u00b0~]|\\\$|\\boxed(?=\{))
    |(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:\s?\\?%)?)
    |(?P<power>\*\*|\^)
    |(?P<times>[*\u00d7\u00b7\u22c5]|\\times|\\cdot|(?<=[\d)]\s)[xX](?=\s+[\d(]))
    |(?P<divide>[/\u00f7]|\\div)
    |(?P<plus>\+)|(?P<minus>[-\u2212\u2013])
    |(?P<open>[({\[])|(?P<close>[)}\]])
    |(?P<fraction>\\[dt]?frac)|(?P<root>\\sqrt|\u221a)
    |(?P<word>[^\W\d_]{2,}(?:[./\u00b7-][^\W\d_]+)*\.?)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS: Final = frozenset({"plus", "minus", "times", "divide", "power", "fraction", "root"})
_DIVIDES: Final = frozenset({"divide", "fraction", "root"})
_AFTER_VALUE: Final = frozenset({"number", "close"})
# A word that changes the number before it.
_SCALES: Final = frozenset(
    "and bn billion dozen hundred million mio mod of or pairs per percent thousand to trillion".split()  # noqa: SIM905
)
# A word before the first number that changes what the calculation means.
_CHANGES: Final = _SCALES - {"and", "or", "per", "to"}
_SCALED = re.compile(r"\b(?:dozen|hundred|thousand|million|billion|trillion|percent|bn|mio|mod)\b")
# The text that may precede a calculation. After `log(` or `x_`, the figures are part of a larger expression.
_OPENS = re.compile(r"(?:^|[\s=>\u2248&\u2192\"`]|(?<!\d):|\\[\[(])[$\u20ac\u00a3*\s]*$")
# Text after the stated number which shows that the number continues, or has another base or scale.
_GOES_ON = re.compile(
    r"[^\W_]|[.,:'\u2019\u2013-]\d|[_^!+\u00b2\u00b3\u00b9\u2070-\u209c\u2026]|\.\.\.|\s?(?:[/:^]|\*\*)"
    r"|\s\(?(?:[kKmMbB]\b|mod\b|rem|r\s?\d|in (?:base|binary|hex))"
)
# A range, a score, a date, a season or a telephone number, in the form of a difference or a quotient.
_RANGE = re.compile(r"\d[\d.,]*(?:[-\u2212\u2013]\d[\d.,]*)+")
_DATE = re.compile(r"\d+(?:[/-]\d+){2,}|(?:19|20)\d\d[/-]\d\d")
_DOUBTS = re.compile(
    r"[?\u2260\u274c\u2717]|\b(?:not|cannot|wrong(?:ly)?|incorrect(?:ly)?|false|instead|mistakes?|mistaken(?:ly)?|errors?"
    r"|claim(?:s|ed)?|states?|stated|said|says|should|rather|if|suppose)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_FARTHEST_DOUBT = 120
_UNIT = re.compile(r"(?<![\\a-zA-Z])[^\W\d_]{2,}|[$\u20ac\u00a3](?=\d)")
_UNIT_AFTER = re.compile(r"\s*(?:\\text\{\s*)?([^\W\d_]+)")
_NO_UNITS: Final = frozenset(
    {"text", "frac", "times", "cdot", "a", "and", "as", "but", "for", "in", "is", "so", "which"}
)


class Calculation(NamedTuple):
    """A stated calculation that is certainly right or certainly wrong.

    `start` and `end` are the span of the stated result in the text. `expression` is the left side as the text writes
    it, `stated` the stated result, and `result` the correct result. `operands` are the offsets of the numbers of the
    left side that are not small whole numbers.
    """

    start: int
    end: int
    expression: str
    stated: float
    result: float
    holds: bool
    operands: tuple[int, ...]


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class _Side(NamedTuple):
    """One side of an equation.

    `operates` is true if an operator connects at least two numbers, and `is_whole` if all numbers are whole.
    `is_ambiguous` is true if people read the side in two ways, for example `6/2(1+2)`.
    """

    value: float
    tokens: Sequence[_Token]
    operates: bool
    is_whole: bool
    is_ambiguous: bool = False

    @property
    def has_percent(self) -> bool:
        return any("%" in token.text for token in self.tokens)

    def has(self, kinds: Container[str]) -> bool:
        return any(token.kind in kinds for token in self.tokens)


class _NotANumberError(Exception):
    pass


def calculations_in(text: str) -> list[Calculation]:
    """Return the first 200 certain calculations (`Calculation`) in the first 50,000 characters of a text, in order."""
    if not any(map(text.__contains__, _CLAIMS_EQUAL)):
        return []
    chunks = (chunk.span() for start, end in _lines(text) for chunk in _CHUNK.finditer(text, start, end))
    found = (one for start, end in chunks for one in _calculations(text, start, end))
    return list(islice(found, _MOST))


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the lines that claim an equality and have enough numbers for a calculation."""
    start = 0
    for line in text[:_MOST_CHARACTERS].split("\n"):
        if _STATES.search(line) and len(_DIGITS.findall(line)) >= _FEWEST_NUMBERS:
            yield start, start + len(line)
        start += len(line) + 1


def _calculations(text: str, start: int, end: int) -> Iterator[Calculation]:
    signs = list(_EQUALS.finditer(text, start, end))
    if not signs or len(_DIGITS.findall(text, start, end)) < _FEWEST_NUMBERS:
        return
    bullet = _BULLET.match(text, start, end)
    start = bullet.end() if bullet else start
    edges = [start, *(edge for sign in signs for edge in sign.span()), end]
    last = len(edges) - 2
    sides = [
        _side(_tokens(text, edges[at], edges[at + 1]), is_first=at == 0, is_last=at == last)
        for at in range(0, len(edges), 2)
    ]
    for sign, (left, right) in zip(signs, pairwise(sides), strict=True):
        if (
            left is None
            or right is None
            or not left.operates
            or not sign.group().startswith(("=", "\u2248", "\\approx"))
        ):
            continue
        stated = right.tokens[0]
        if stated.kind != "number" or right.operates:
            continue
        holds = _is_equal(left, right, is_exact=sign.group().startswith("="))
        if not holds and _is_doubtful(text, left, right, sign.span()):
            continue
        yield Calculation(
            start=stated.start,
            end=stated.end,
            expression=text[left.tokens[0].start : left.tokens[-1].end],
            stated=right.value,
            result=left.value,
            holds=holds,
            operands=tuple(one.start for one in left.tokens if one.kind == "number" and not _is_small(one.text)),
        )


def _is_small(figure: str) -> bool:
    return figure.isdecimal() and len(figure) <= 2 and int(figure) <= _SMALL


def _is_equal(left: _Side, right: _Side, *, is_exact: bool) -> bool:
    """Return whether the sides are equal up to rounding. A percentage may be written as a share or as a number."""
    figure = right.tokens[0].text
    step = _step(figure)
    readings = [left.value]
    if left.has_percent or right.has_percent:
        relative = _value(left.tokens, is_relative=True)
        readings += [left.value * 100, left.value / 100, left.value if relative is None else relative]
    exact = is_exact and left.is_whole and right.is_whole and not left.has(_DIVIDES) and not right.has_percent
    return any(_is_near(value, right.value, step, exact=exact) for value in readings)


def _is_near(value: float, stated: float, step: float, *, exact: bool) -> bool:
    apart = abs(value - stated)
    if apart <= step * 0.5000001:
        return True
    return not exact and apart <= max(abs(value), abs(stated)) * _ROUNDED + step


def _is_doubtful(text: str, left: _Side, right: _Side, sign: tuple[int, int]) -> bool:
    """Return whether the text may mean something else, so that a difference between the sides proves nothing."""
    start, end = left.tokens[0].start, right.tokens[-1].end
    if left.is_ambiguous or not _OPENS.search(text, max(0, start - 12), start) or _GOES_ON.match(text, end):
        return True
    if _is_other_notation(text[start : left.tokens[-1].end], left, right, text[sign[0] - 1 : sign[0]]):
        return True
    if left.has(("plus", "minus")) and left.has_percent:
        return True
    # In `Step 2 - 10 + 5 = 15`, the first number is part of a name.
    rest = _value(left.tokens[2:]) if len(left.tokens) > 2 and left.tokens[1].kind == "minus" else None
    if rest is not None and abs(rest - right.value) <= _step(right.tokens[0].text):
        return True
    line = text.rfind("\n", max(0, start - _FARTHEST_DOUBT), start) + 1 or max(0, start - _FARTHEST_DOUBT)
    after = text.find("\n", end, end + _FARTHEST_DOUBT)
    doubts = _DOUBTS.search(text, line, after if after >= 0 else end + _FARTHEST_DOUBT)
    return doubts is not None or _converts(text, left, right, sign[0])


def _is_other_notation(written: str, left: _Side, right: _Side, before_sign: str) -> bool:
    """Return whether the left side may be a range, a score, a date or a rating: `10-20 = 11 pages`, `8/10 = 80`."""
    if _DATE.fullmatch(written) or (before_sign.isspace() and _RANGE.fullmatch(written)):
        return True
    if not left.has(_OPERATORS - {"minus"}) and left.value <= 0 < right.value:
        return True
    is_quotient = not left.has(_OPERATORS - _DIVIDES)
    return is_quotient and abs(left.value) < 1 <= abs(right.value) and right.is_whole


def _converts(text: str, left: _Side, right: _Side, end_of_left: int) -> bool:
    """Return whether the units differ, so that the result may be in another unit: `60 * 60 = 1 hour`."""
    units = _units(text[max(0, left.tokens[0].start - 1) : end_of_left])
    if len(units) > 1 and left.has(("plus", "minus")):
        return True
    match = _UNIT_AFTER.match(text, right.tokens[-1].end, right.tokens[-1].end + 40)
    word = match[1].lower() if match else ""
    unit = word.rstrip("s")
    if not unit or unit in units or word in _NO_UNITS:
        return False
    return bool(units) or not 0.5 < abs(right.value) / (abs(left.value) or 1.0) < 2


def _units(written: str) -> set[str]:
    found = (match.group().lower() for match in _UNIT.finditer(written))
    return {word.rstrip("s") for word in found if word not in _NO_UNITS}


def _step(figure: str) -> float:
    decimals = len(figure.rstrip("%\\ ").partition(".")[2])
    return 10.0**-decimals / (100 if figure.endswith("%") else 1)


def _tokens(text: str, start: int, end: int) -> list[_Token]:
    """Return the tokens of one side without units. A word that is not a unit becomes a token of kind `other`."""
    found: list[_Token] = []
    for match in islice(_TOKEN.finditer(text, start, end), 4 * _MOST_TOKENS):
        kind = match.lastgroup or "other"
        if kind == "skip":
            scale = next((word for word in _SCALED.findall(match.group())), "")
            if scale:
                found.append(_Token("other", scale, *match.span()))
            continue
        if kind == "word":
            is_unit = (
                bool(found) and found[-1].kind in _AFTER_VALUE and match.group().lower().rstrip(".") not in _SCALES
            )
            if is_unit:
                continue
            kind = "other"
        found.append(_Token(kind, match.group(), *match.span()))
    return found


def _side(tokens: list[_Token], *, is_first: bool, is_last: bool) -> _Side | None:
    """Return one side with its value, or None if the side is not a number.

    Words may come only at the beginning of the first side and at the end of the last side.
    """
    others = [at for at, token in enumerate(tokens) if token.kind == "other"]
    if others and is_first:
        if tokens[others[-1]].text.lower() in _CHANGES:
            return None
        tokens = tokens[others[-1] + 1 :]
        # The first operator applies to something that is not a number, so the side is not a number either.
        if tokens and tokens[0].kind in _OPERATORS - {"fraction", "root"}:
            return None
    elif others and is_last and tokens[others[0]].text.lower() not in _SCALES:
        tokens = tokens[: others[0]]
    elif others:
        return None
    if not tokens or len(tokens) > _MOST_TOKENS:
        return None
    parser = _Parser(tokens)
    value = parser.value()
    if value is None:
        return None
    numbers = [token.text for token in tokens if token.kind == "number"]
    operates = len(numbers) > 1 and any(token.kind in _OPERATORS for token in tokens)
    is_whole = not any("." in number for number in numbers)
    return _Side(value, tokens, operates, is_whole, parser.is_ambiguous)


def _value(tokens: Sequence[_Token], *, is_relative: bool = False) -> float | None:
    return _Parser(tokens, is_relative=is_relative).value()


class _Parser:
    """A parser of sums, products, powers, fractions, roots and brackets, by recursive descent.

    With `is_relative`, a percentage that is added or subtracted is a share of the value before it: `200 + 10 % = 220`.
    """

    def __init__(self, tokens: Sequence[_Token], *, is_relative: bool = False) -> None:
        self.tokens = tokens
        self.at = 0
        self.is_relative = is_relative
        self.is_ambiguous = False

    def value(self) -> float | None:
        """Return the value of all tokens, or None if they are not a number."""
        try:
            value = self.expression(0)
        except (_NotANumberError, OverflowError, ZeroDivisionError, ValueError):
            return None
        return value if self.at == len(self.tokens) and isfinite(value) else None

    def _kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def expression(self, depth: int) -> float:
        if depth > _DEEPEST:
            raise _NotANumberError
        value = self._product(depth)
        while self._kind() in ("plus", "minus"):
            is_sum = self._kind() == "plus"
            self.at += 1
            first = self.at
            other = self._product(depth)
            if self.is_relative and self.at == first + 1 and self.tokens[first].text.endswith("%"):
                other *= value
            value = value + other if is_sum else value - other
        return value

    def _product(self, depth: int) -> float:
        value = self._power(depth)
        divided = False
        while (kind := self._kind()) in ("times", "divide", "open", "fraction", "root"):
            if kind in ("times", "divide"):
                self.at += 1
                divided = divided or kind == "divide"
            else:
                self.is_ambiguous = self.is_ambiguous or divided or kind == "fraction"
            other = self._power(depth)
            value = value / other if kind == "divide" else value * other
        return value

    def _power(self, depth: int) -> float:
        if self._kind() in ("minus", "plus"):
            is_negative = self._kind() == "minus"
            self.at += 1
            value = self._power(depth + 1) if depth <= _DEEPEST else 0.0
            return -value if is_negative else value
        value = self._atom(depth)
        if self._kind() == "power":
            self.at += 1
            exponent = self._power(depth + 1) if depth <= _DEEPEST else 0.0
            if abs(exponent) > _MOST_EXPONENT or (value < 0 and exponent != int(exponent)):
                raise _NotANumberError
            value = float(value**exponent)
        return value

    def _atom(self, depth: int) -> float:
        kind = self._kind()
        if not kind or depth > _DEEPEST:
            raise _NotANumberError
        token = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            plain = token.text.replace(",", "").rstrip("%\\ \u202f\u00a0")
            return float(plain) / 100 if token.text.endswith("%") else float(plain)
        if kind == "open":
            value = self.expression(depth + 1)
            if self._kind() != "close":
                raise _NotANumberError
            self.at += 1
            return value
        if kind == "fraction":
            return self._group(depth) / self._group(depth)
        if kind == "root":
            return sqrt(self._group(depth))
        raise _NotANumberError

    def _group(self, depth: int) -> float:
        if self._kind() not in ("open", "number") or self.tokens[self.at].text == "[":
            raise _NotANumberError
        return self._atom(depth + 1)
