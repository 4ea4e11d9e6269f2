"""Numbers that stand nowhere but follow from those that do: roundings, percentages, counts, sums and differences."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from handoffaudit.validation.layers.grounding.normal import Number

_MAX_OPERANDS = 150
_MAX_WHOLE_OPERANDS = 40
_MAX_PARTS = 100
_LONGEST_RUN = 12
# beyond this, numbers of this precision cannot be told apart, and no sum means anything
_LARGEST = 1e12
_HALF = 0.5000001


def rounded_from(claimed: Number, given: Sequence[float]) -> float | None:
    """A number, of some given in order of size, that is the claimed one at the places the claim was written with."""
    at = bisect_left(given, claimed.value - claimed.step * _HALF)
    return given[at] if at < len(given) and given[at] <= claimed.value + claimed.step * _HALF else None


def as_share(claimed: Number, given: Sequence[float]) -> float | None:
    """0.4 where 40 % is claimed, and 40 where 0.4 is."""
    scale = 0.01 if claimed.percent else 100.0
    if not claimed.percent and claimed.value >= 1:
        return None
    return rounded_from(Number(claimed.value * scale, claimed.step * scale), given)


def worked_out(claimed: Number, sources: Sequence[float], stated: Sequence[float]) -> str:
    """How the claimed number follows from the sources' numbers and those the claim itself states, or nothing.

    Only the first of each are tried, in pairs, and as sums of numbers that stand side by side; whole numbers with fewer
    others, since nearly any small one is the sum of two out of many.
    """
    most = _MAX_OPERANDS if claimed.step < 1 else _MAX_WHOLE_OPERANDS
    if abs(claimed.value) > _LARGEST or claimed.step < 1 / _LARGEST:
        return ""
    given = [number for number in sources[:most] if abs(number) <= _LARGEST]
    operands = list(dict.fromkeys([*(number for number in stated[:most] if abs(number) <= _LARGEST), *given]))
    if claimed.percent:
        return _percentage(claimed, sorted(operands[:_MAX_PARTS]))
    return (
        _sum_of_run(claimed, stated) or _pair(claimed, operands) or _sum_of_run(claimed, given) or _mean(claimed, given)
    )


def _near(claimed: Number, number: float) -> bool:
    return abs(number - claimed.value) <= claimed.step * _HALF


def _pair(claimed: Number, operands: list[float]) -> str:
    """A sum, a difference, or a small multiple of two given numbers."""
    step = claimed.step
    target = claimed.value
    by_place = {round(number / step): number for number in operands} if step else {}
    for one in operands:
        for wanted, sign in ((target - one, "+"), (target + one, "-")):
            other = by_place.get(round(wanted / step))
            if other is None or (sign == "+" and (other == 0 or one == 0)) or (sign == "-" and one == 0):
                continue
            if _near(claimed, one + other) if sign == "+" else _near(claimed, other - one):
                return f"{one:,.12g} + {other:,.12g}" if sign == "+" else f"{other:,.12g} - {one:,.12g}"
    for times in range(2, 13):
        found = by_place.get(round(target / times / step))
        if found and _near(claimed, found * times):
            return f"{times} * {found:,.12g}"
    return ""


def _sum_of_run(claimed: Number, numbers: Sequence[float]) -> str:
    for start in range(len(numbers)):
        for size, total in enumerate(accumulate(numbers[start : start + _LONGEST_RUN]), start=1):
            if size > 2 and _near(claimed, total):
                return f"sum of {size} numbers from {numbers[start]:,.12g}"
            if total > claimed.value + claimed.step:
                break
    return ""


def _percentage(claimed: Number, operands: Sequence[float]) -> str:
    """A part of a whole, or the change from one number to another; `operands` are in order of size."""
    for whole in operands:
        if whole <= 0:
            continue
        part = rounded_from(Number(claimed.value * whole / 100, claimed.step * whole / 100), operands)
        if part is not None:
            return f"{part:,.12g} of {whole:,.12g}"
        change = whole * claimed.value / 100
        near = Number(whole + change, claimed.step * whole / 100)
        other = rounded_from(near, operands) or rounded_from(Number(whole - change, near.step), operands)
        if other is not None:
            return f"change from {whole:,.12g} to {other:,.12g}"
    return ""


def _mean(claimed: Number, numbers: Sequence[float]) -> str:
    if len(numbers) > 2 and _near(claimed, sum(numbers) / len(numbers)):
        return f"mean of {len(numbers)} numbers"
    return ""
