"""Derived numbers: roundings, percentages, multiples, sums, differences and means of the numbers in the sources.

Most claimed numbers cannot be derived. A cheap test excludes most of these numbers first. The data of this test is
prepared once for all claims. For the other numbers, the module searches for a derivation and returns the first match.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations, islice, permutations

from handoffaudit.validation.layers.grounding.values import Number, readings_of
from handoffaudit.validation.layers.grounding.vocabulary import MULTIPLIERS, NUMBER_WORDS

_MAX_OPERANDS = 150
_MAX_WHOLE_OPERANDS = 40
_MAX_PARTS = 100
# Ten is not included, because an extra zero is a typical mistake.
_TIMES = (2, 3, 4, 5, 6, 7, 8, 9, 11, 12)
_MAX_FACTORS = 24
_FEWEST_STEPS = 1e4
_LONGEST_RUN = 12
_SHORTEST_RUN = 3
# Sums of larger floats are too inexact to prove a derivation.
_LARGEST = 1e12
_HALF = 0.5000001
# Up to this many steps, the rounding error of a difference of floats is far below one step.
_MOST_STEPS = 1e9
_EXACTLY = 1e-6


def find_rounded(claimed: Number, given: Sequence[float]) -> float | None:
    """Return a number of the sorted `given` that rounds to the claimed number at its precision, or None."""
    return _find_within(claimed.value, claimed.step * _HALF, given)


def _find_within(value: float, tolerance: float, given: Sequence[float]) -> float | None:
    at = bisect_left(given, value - tolerance)
    return given[at] if at < len(given) and given[at] <= value + tolerance else None


def as_share(claimed: Number, given: Sequence[float]) -> float | None:
    """Return the given number that is the claimed share in the other notation (0.4 for 40 %, 40 for 0.4), or None."""
    scale = 0.01 if claimed.percent else 100.0
    if not claimed.percent and claimed.value >= 1:
        return None
    return _find_within(claimed.value * scale, claimed.step * scale * _HALF, given)


class _Runs:
    """The sums of 3 to 12 adjacent numbers."""

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        self._totals: list[float] = []
        self._is_sorted = True
        self._open: list[float] = []
        for number in numbers:
            self.add(number)

    def add(self, number: float) -> None:
        self._open = [total + number for total in self._open[1 - _LONGEST_RUN :]]
        self._totals += self._open[: 2 - _SHORTEST_RUN]
        self._is_sorted = False
        self._open.append(number)

    def may_come_to(self, claimed: Number) -> bool:
        if not self._is_sorted:
            self._totals.sort()
            self._is_sorted = True
        return _find_within(claimed.value, claimed.step * _HALF * (1 + _EXACTLY), self._totals) is not None


class _Places:
    """The positions of numbers on a grid, in whole steps of a fixed size."""

    def __init__(self, step: float, numbers: Iterable[float]) -> None:
        self._step = step
        self._taken: set[int] = set()
        self._exact: list[int] = []
        # Numbers between two positions, and numbers that are too large for an exact position.
        self._between: list[float] = []
        for number in numbers:
            self.add(number)

    def add(self, number: float) -> None:
        steps = number / self._step
        place = round(steps)
        self._taken.add(place)
        if abs(steps - place) < _EXACTLY and steps < _MOST_STEPS:
            self._exact.append(place)
        else:
            self._between.append(number)

    def copy(self) -> "_Places":
        copy = _Places(self._step, ())
        copy._taken, copy._exact, copy._between = self._taken.copy(), self._exact.copy(), self._between.copy()
        return copy

    def may_make(self, target: float) -> bool:
        """Return whether `target` may be a sum or difference of two numbers, or a multiple of one number."""
        taken, step = self._taken, self._step
        if target / step > _MOST_STEPS:
            return True
        place = round(target / step)
        if not (
            taken.isdisjoint([place - one for one in self._exact])
            and taken.isdisjoint([place + one for one in self._exact])
        ):
            return True
        for one in self._between:
            if round((target - one) / step) in taken or round((target + one) / step) in taken:
                return True
        if self._between:
            return not taken.isdisjoint([round(target / times / step) for times in _TIMES])
        return any(place % times == 0 and place // times in taken for times in _TIMES)


class Operands:
    """The first numbers of the sources, used as operands of derivations."""

    def __init__(self, sources: Iterable[float], most: int) -> None:
        self.most = most
        self.numbers = [number for number in islice(sources, most) if abs(number) <= _LARGEST]
        self.runs = _Runs(self.numbers)
        self.mean = sum(self.numbers) / len(self.numbers) if len(self.numbers) > 2 else None
        self._places: dict[float, _Places] = {}
        self._by_place: dict[float, dict[int, float]] = {}

    @cached_property
    def _products(self) -> list[float]:
        numbers = [number for number in self.numbers[:_MAX_FACTORS] if number not in (0, 1, 10, 100)]
        products = [one * other for one, other in combinations(numbers, 2)]
        return sorted([*products, *(one / other for one, other in permutations(numbers, 2))])

    def product(self, claimed: Number) -> str:
        """Return "product of two numbers" if the claimed number is a product or quotient of two numbers, else "".

        One of the two may be a percentage. The claimed number must have five figures or more, because a number with
        fewer figures would often be such a product by chance.
        """
        if claimed.value < _FEWEST_STEPS * claimed.step:
            return ""
        for times in (1, 100):
            if _find_within(claimed.value * times, claimed.step * times * _HALF, self._products) is not None:
                return "product of two numbers"
        return ""

    def places(self, step: float) -> _Places:
        found = self._places.get(step)
        if found is None:
            found = self._places[step] = _Places(step, self.numbers)
        return found

    def by_place(self, step: float) -> dict[int, float]:
        """Return the numbers by their positions. If several numbers have the same position, the last number wins."""
        found = self._by_place.get(step)
        if found is None:
            found = self._by_place[step] = {round(number / step): number for number in self.numbers}
        return found


class SourceOperands:
    """The operands from the sources: many for claimed numbers with decimals, and fewer for claimed whole numbers.

    With many operands, nearly any small whole number would be the sum of two operands.
    """

    def __init__(self, sources: Iterable[float]) -> None:
        self._sources = list(islice(sources, _MAX_OPERANDS))
        self._made: dict[int, Operands] = {}

    def of(self, claimed: Number) -> Operands:
        most = _MAX_OPERANDS if claimed.step < 1 else _MAX_WHOLE_OPERANDS
        found = self._made.get(most)
        if found is None:
            found = self._made[most] = Operands(self._sources, most)
        return found


class Derivation:
    """The derivation of the numbers of one claim from the sources and from numbers that the claim stated earlier."""

    def __init__(self, sources: SourceOperands) -> None:
        self._sources = sources
        self._stated: list[float] = []
        self._runs = _Runs()
        # The key is the number of operands and the step. The value has the positions of the sources' numbers, extended
        # by stated numbers, and the count of stated numbers already added.
        self._places: dict[tuple[int, float], tuple[_Places, int]] = {}
        # A cache of operands, which is cleared when the claim states a further number.
        self._tried: dict[int, list[float]] = {}

    def state(self, number: float) -> None:
        """Add a number that the claim states and that is grounded or derived."""
        self._stated.append(number)
        self._runs.add(number)
        self._tried.clear()

    def way(self, claimed: Number) -> str:
        """Return how the claimed number follows from other numbers, or an empty string.

        Only the first operands are used. The ways are pairs, multiples, sums of adjacent numbers, and the mean of these
        operands. A percentage is tried only as a part of a whole, and as a change between two numbers.
        """
        if abs(claimed.value) > _LARGEST or claimed.step < 1 / _LARGEST:
            return ""
        given = self._sources.of(claimed)
        if claimed.percent:
            return _percentage(claimed, sorted(self._operands(given)[:_MAX_PARTS]))
        if self._runs.may_come_to(claimed) and (way := _sum_of_run(claimed, self._stated)):
            return way
        places = self._with_places(given, claimed.step)
        if places.may_make(claimed.value) and (way := self._pair(claimed, given)):
            return way
        if given.runs.may_come_to(claimed) and (way := _sum_of_run(claimed, given.numbers)):
            return way
        return _mean(claimed, given) or given.product(claimed)

    def _pair(self, claimed: Number, given: Operands) -> str:
        operands, by_place = self._operands(given), given.by_place(claimed.step)
        if self._stated:
            # A number of the sources takes precedence over a stated number in the same position.
            stated = {round(number / claimed.step): number for number in operands[: len(self._stated)]}
            by_place = stated | by_place
        return _pair(claimed, operands, by_place)

    def _operands(self, given: Operands) -> list[float]:
        if not self._stated:
            return given.numbers
        found = self._tried.get(given.most)
        if found is None:
            stated = (number for number in self._stated[: given.most] if abs(number) <= _LARGEST)
            found = self._tried[given.most] = list(dict.fromkeys((*stated, *given.numbers)))
        return found

    def _with_places(self, given: Operands, step: float) -> _Places:
        if not self._stated:
            return given.places(step)
        key = (given.most, step)
        places, known = self._places.get(key) or (given.places(step).copy(), -1)
        if known < len(self._stated):
            for number in self._stated[max(known, 0) : given.most]:
                if abs(number) <= _LARGEST:
                    places.add(number)
            self._places[key] = (places, len(self._stated))
        return places


def _near(claimed: Number, number: float) -> bool:
    return abs(number - claimed.value) <= claimed.step * _HALF


def _pair(claimed: Number, operands: list[float], by_place: dict[int, float]) -> str:
    """Return a sum, a difference or a small multiple of operands that gives the claimed number, or an empty string."""
    step = claimed.step
    target = claimed.value
    for one in filter(None, operands):
        other = by_place.get(round((target - one) / step))
        if other and _near(claimed, one + other):
            return f"{one:,.12g} + {other:,.12g}"
        whole = by_place.get(round((target + one) / step))
        if whole is not None and _near(claimed, whole - one):
            return f"{whole:,.12g} - {one:,.12g}"
    for times in _TIMES:
        found = by_place.get(round(target / times / step))
        if found and _near(claimed, found * times):
            return f"{times} * {found:,.12g}"
    return ""


def _sum_of_run(claimed: Number, numbers: Sequence[float]) -> str:
    for start in range(len(numbers)):
        for size, total in enumerate(accumulate(numbers[start : start + _LONGEST_RUN]), start=1):
            if size >= _SHORTEST_RUN and _near(claimed, total):
                return f"sum of {size} numbers from {numbers[start]:,.12g}"
            if total > claimed.value + claimed.step:
                break
    return ""


def _percentage(claimed: Number, operands: Sequence[float]) -> str:
    """Return the part of a whole, or the change between two numbers, that gives the percentage, or an empty string.

    `operands` are sorted in ascending order.
    """
    share, tolerance, size = claimed.value / 100, claimed.step / 100 * _HALF, len(operands)
    for whole in operands:
        if whole <= 0:
            continue
        part, most = whole * share, whole * tolerance
        for wanted in (part, whole + part, whole - part):
            at = bisect_left(operands, wanted - most)
            if at < size and (found := operands[at]) <= wanted + most:
                is_part = wanted == part
                return f"{found:,.12g} of {whole:,.12g}" if is_part else f"change from {whole:,.12g} to {found:,.12g}"
    return ""


def _mean(claimed: Number, given: Operands) -> str:
    if given.mean is not None and _near(claimed, given.mean):
        return f"mean of {len(given.numbers)} numbers"
    return ""


# The pattern begins with a digit, so that the engine skips all other characters.
_SCALED = re.compile(
    r"(\d(?<![^\W_]\d)(?<!\d[.,]\d)\d*(?:[.,]\d+)*)[ -]?([kmb]|bn|mn|[mbt]r?illion|thousand)(?![^\W_])"
)

# Every match of `_SCALED` contains a match of this pattern. Most texts have no match, and a search for this pattern
# takes a third of the time of a search for `_SCALED`.
_MAY_SCALE = re.compile(r"[0-9][ -]?(?:[kmb]|bn|mn|[mbt]r?illion|thousand)(?![^\W_])")

_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ONES = {"one": 1, **{word: number for word, number in NUMBER_WORDS.items() if number < 10}}
_TWO_WORDS = re.compile(rf"({'|'.join(_TENS)})[ -]({'|'.join(_ONES)})\b")

# A number such as `1e-05`, in lower case. Programs write the exponent with a sign, so `scaled_numbers_in` searches only
# texts with `e-` or `e+`.
EXPONENT = re.compile(r"(?<![\w.])\d{1,30}(?:\.\d{1,30})?e[+-]?\d\d?(?!\w)")


def scaled_numbers_in(lowered: str) -> Iterator[tuple[float, str]]:
    """Yield each number in a lower-case text that has a scale, an exponent or two words.

    For example, `8.2 million`, `65k`, `1e-05` and `twenty five`. Each number comes with its spelling in the text.
    """
    for match in _SCALED.finditer(lowered) if _MAY_SCALE.search(lowered) else ():
        scale = MULTIPLIERS.get(match[2])
        if scale:
            yield from ((round(number * scale, 6), match.group()) for number in readings_of(match[1]))
    if "ty" in lowered and any(map(lowered.__contains__, _TENS)):
        for match in _TWO_WORDS.finditer(lowered):
            yield float(NUMBER_WORDS[match[1]] + _ONES[match[2]]), match.group()
    if "e-" in lowered or "e+" in lowered:
        yield from ((float(match.group()), match.group()) for match in EXPONENT.finditer(lowered))
