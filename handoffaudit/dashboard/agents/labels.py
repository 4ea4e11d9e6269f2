"""Labels of the agent pages: durations, lists of names, and changes of declared routes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handoffaudit.dashboard.policies.forms import Line, format_optional, format_path, format_value
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.policy.versions import WHOLE_ROW, Change

LONGEST_NAME = 60

_MOST_TOLD = 12

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def format_duration(seconds: float | None) -> str:
    """Format a duration as `0.4 s`, `12 s`, `3.5 min` or `2 d`; an empty string where the duration is unknown."""
    if seconds is None:
        return ""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{_digits(seconds / length)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


def join_names(names: Iterable[Any]) -> str:
    """Join the first names, and say how many more there are."""
    every = [cut(str(name), LONGEST_NAME) for name in names]
    more = len(every) - _MOST_TOLD
    return ", ".join(every[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of the declared routes."""
    return [line for change in changes for line in _lines(change)]


def _lines(change: Change) -> list[Line]:
    name = cut(change.row, LONGEST_NAME)
    if change.field == WHOLE_ROW:
        return [Line(name, "targets", _targets(change.old), _targets(change.new))]
    if change.field == "targets" and isinstance(change.old, list) and isinstance(change.new, list):
        gone, came = _without(change.old, change.new), _without(change.new, change.old)
        told = [Line(name, "targets", join_names(gone), None)] if gone else []
        return [*told, Line(name, "targets", None, join_names(came))] if came else told
    return [Line(name, format_path(change.field), format_optional(change.old), format_optional(change.new))]


def _without(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [one for one in some if one not in others]


def _targets(plain: Any) -> str | None:
    if not isinstance(plain, Mapping):
        return format_optional(plain)
    targets = plain.get("targets")
    return join_names(targets) if isinstance(targets, list) else format_value(targets)
