"""What is wrong with a line."""

from collections.abc import Iterable

from handoffaudit.validation.text import closest, either, shown


class Fault(Exception):
    """Why a line can't be read: what was expected, and what was found."""


def unknown(what: str, found: object, choices: Iterable[str]) -> Fault:
    """One of a few words is expected. Names the nearest, or all where none is near."""
    known = tuple(choices)
    near = closest(found, known)
    hint = f"did you mean {near}?" if near else f"it is one of {either(known)}"
    return Fault(f"the {what} {shown(found)} is not known; {hint}")
