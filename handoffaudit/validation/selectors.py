"""Dotted paths of users, the selection of values in a JSON document, and a budget for the steps taken."""

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from handoffaudit.validation.paths import Location

MOST_STEPS = 300_000

"""The most steps that the rules, or the claim fields, of one handoff may take. They take at most a second.

An ordinary handoff takes some hundreds of steps.
"""


class StepBudgetSpentError(Exception):
    """Raised when a step budget is used up."""


class StepBudget:
    """A budget of steps, shared by all work on one handoff."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        self.left = most

    def spend(self, steps: int = 1) -> None:
        """Spend steps. Raises StepBudgetSpentError when the budget is exceeded, and at every later call."""
        self.left -= steps
        if self.left < 0:
            raise StepBudgetSpentError


class _Mark(Enum):
    ANY = "*"
    MISSING = "missing"


ANY: Final = _Mark.ANY

"""The part of a path that matches any item of a list and any value of an object."""

MISSING: Final = _Mark.MISSING

"""The value that `select` yields if a path does not exist in the document."""

Path = tuple[str | int | _Mark, ...]

LONGEST_PATH = 300

MOST_PARTS = 32

_PART = re.compile(
    r"""\.?\[(?P<index>\d{1,9})\] | \.?\[(?P<any>\*)\] | \.?\["(?P<quoted>(?:[^"\\]|\\.)*)"\]
    | \.?(?P<name>[^.\[\]"]+)""",
    re.VERBOSE,
)

_ESCAPED = re.compile(r"\\(.)")


class PathError(ValueError):
    """Raised for a text that is not a dotted path. The message says why."""


@lru_cache(maxsize=4096)
def parse_path(text: str) -> Path:
    """Return the parts of a dotted path such as `layers.*.findings[0]`.

    A key that contains a dot is written `["a.b"]`. Raises PathError for an empty or malformed path, and for a path of
    more than 300 characters or 32 parts.
    """
    if not text:
        raise PathError("The path is empty.")
    if len(text) > LONGEST_PATH:
        raise PathError(f"The path is longer than {LONGEST_PATH} characters.")
    parts: list[str | int | _Mark] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or (position == 0 and text[0] == "."):
            raise PathError(f"The path cannot be read from character {position + 1} on.")
        parts.append(_parse_part(found))
        position = found.end()
    if len(parts) > MOST_PARTS:
        raise PathError(f"The path has more than {MOST_PARTS} parts.")
    return tuple(parts)


def _parse_part(found: re.Match[str]) -> str | int | _Mark:
    if found["index"] is not None:
        return int(found["index"])
    if found["quoted"] is not None:
        return _ESCAPED.sub(r"\1", found["quoted"])
    name: str | None = found["name"]
    return ANY if name is None or name == "*" else name


def select(
    document: Any, path: Path, place: Location = (), effort: StepBudget | None = None
) -> Iterator[tuple[Location, Any]]:
    """Yield every place that `path` selects, with its value, or `MISSING` if a name or a position is absent.

    A `*` over an empty list or object selects nothing. Each visited value spends one step of `effort`. Raises
    StepBudgetSpentError if the budget is used up.
    """
    if effort is not None:
        effort.spend()
    if not path:
        yield place, document
        return
    part, rest = path[0], path[1:]
    if part is ANY:
        yield from _select_all(document, rest, place, effort)
        return
    key = _key(document, part)
    if key is None:
        named = tuple(str(one.value) if isinstance(one, _Mark) else one for one in path)
        yield (*place, *named), MISSING
    else:
        yield from select(document[key], rest, (*place, key), effort)


def _select_all(
    document: Any, rest: Path, place: Location, effort: StepBudget | None
) -> Iterator[tuple[Location, Any]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield from select(value, rest, (*place, key), effort)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from select(value, rest, (*place, index), effort)
    else:
        yield (*place, ANY.value), MISSING


def _key(document: Any, part: str | int | _Mark) -> str | int | None:
    """Return `part` as a key of the document, or None if it is absent. `targets.0` is read as `targets[0]`."""
    if isinstance(document, dict):
        return part if isinstance(part, str) and part in document else None
    if isinstance(document, list):
        index = int(part) if isinstance(part, str) and part.isascii() and part.isdecimal() else part
        return index if isinstance(index, int) and index < len(document) else None
    return None
