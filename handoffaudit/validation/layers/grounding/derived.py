"""Numbers that stand nowhere but follow from those that do: roundings, percentages, counts, sums and differences."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice

from handoffaudit.validation.layers.grounding.normal import Number

_MAX_OPERANDS = 300
_LONGEST_RUN = 12
_HALF = 0.5000001


def rounded_from(claimed: Number, given: Iterable[float]) -> float | None:
    """A given number that is the claimed one at the places the claim was written with."""
    low, high = claimed.value - claimed.step * _HALF, claimed.value + claimed.step * _HALF
    return next((number for number in given if low <= number <= high), None)


def as_share(claimed: Number, given: Iterable[float]) -> float | None:
    """0.4 where 40 % is claimed, and 40 where 0.4 is."""
    scale = 0.01 if claimed.percent else 100.0
    if not claimed.percent and claimed.value >= 1:
        return None
    return rounded_from(Number(claimed.value * scale, claimed.step * scale), given)


def worked_out(claimed: Number, sources: Sequence[float], stated: Sequence[float]) -> str:
    """How the claimed number follows from the sources' numbers and those the claim itself states, or nothing.

    Only the first 300 of each are tried, in pairs, and as sums of numbers that stand side by side.
    """
    operands = list(dict.fromkeys([*islice(stated, _MAX_OPERANDS), *islice(sources, _MAX_OPERANDS)]))
    return (
        _sum_of_run(claimed, stated)
        or _pair(claimed, operands)
        or _sum_of_run(claimed, list(islice(sources, _MAX_OPERANDS)))
        or (_percentage(claimed, operands) if claimed.percent else "")
        or _mean(claimed, list(islice(sources, _MAX_OPERANDS)))
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
                return f"{one:g} + {other:g}" if sign == "+" else f"{other:g} - {one:g}"
    for times in range(2, 13):
        found = by_place.get(round(target / times / step))
        if found and _near(claimed, found * times):
            return f"{times} * {found:g}"
    return ""


def _sum_of_run(claimed: Number, numbers: Sequence[float]) -> str:
    for start in range(len(numbers)):
        for size, total in enumerate(accumulate(numbers[start : start + _LONGEST_RUN]), start=1):
            if size > 2 and _near(claimed, total):
                return f"sum of {size} numbers from {numbers[start]:g}"
            if total > claimed.value + claimed.step:
                break
    return ""


def _percentage(claimed: Number, operands: list[float]) -> str:
    for whole in operands[:100]:
        if whole <= 0:
            continue
        part = rounded_from(Number(claimed.value * whole / 100, claimed.step * whole / 100), operands[:100])
        if part is not None:
            return f"{part:g} of {whole:g}"
        change = whole * claimed.value / 100
        near = Number(whole + change, claimed.step * whole / 100)
        other = rounded_from(near, operands[:100]) or rounded_from(Number(whole - change, near.step), operands[:100])
        if other is not None:
            return f"change from {whole:g} to {other:g}"
    return ""


def _mean(claimed: Number, numbers: list[float]) -> str:
    if len(numbers) > 2 and _near(claimed, sum(numbers) / len(numbers)):
        return f"mean of {len(numbers)} numbers"
    return ""
