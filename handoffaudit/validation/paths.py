"""Places in a JSON document: dotted paths for people, the values that they select, and JSON Pointers for machines."""

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, Final

Location = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[^\s.\[\]\"]+\Z")

LONGEST_SHAPED = 500
# A quoted key, a list position, or a plain key.
_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[\d+\]|[^\s.\[\]"]+')
_WHOLE_KEY = re.compile(
    r"\d[\d\-_/:,+TZ ]*(?:\.\d+)?"  # a number, a date, a time
    r"|(?=\D*\d)(?:0x)?[0-9a-f]{8,}|[0-9a-f]{32,}"  # a hash
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a UUID
    r"|(?=(?:\D*\d){4})[\w-]{20,}"  # a generated id
    r"|.*(?:@|://).*",  # an address
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
# The number of a key that is a name and a number: `step_12`, `ORD-4711`, `order4711`, but not `sha256`.
_NUMBER_OF_KEY = re.compile(r"(?<=[_\-#])\d+(?![A-Za-z0-9])|(?<=[A-Za-z])\d{4,}(?![A-Za-z0-9])")


def dotted_path(location: Location) -> str:
    """Return a location as a dotted path: `("files", 2, "path")` becomes `files[2].path`. Unusual keys are quoted."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def place_order(location: Location) -> list[tuple[bool, int, str]]:
    """Return a sort key for locations: keys in the order of their text, list positions as numbers."""
    return [(True, part, "") if isinstance(part, int) else (False, 0, part) for part in location]


def last_name(location: Location) -> str:
    """Return the last key with the list positions after it (`files[2]`), as a short label of the place."""
    start = len(location) - 1
    while start > 0 and isinstance(location[start], int):
        start -= 1
    return dotted_path(location[max(start, 0) :])


def pointer(location: Location) -> str:
    """Return the location as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def shape(field_path: str) -> str:
    """Return a dotted path with its varying parts replaced by `*`.

    `data.items[3].price` and `data.items[12].price` both become `data.items[*].price`. Keys that are numbers, dates,
    hashes, ids or addresses also become `*`, and so does the number in `step_12`. The path may be any text, of which
    only the first 500 characters count.
    """
    text = field_path[:LONGEST_SHAPED]
    while (shaped := _PART.sub(_shape_part, text)) != text:
        text = shaped
    return text


def _shape_part(part: re.Match[str]) -> str:
    """Return the shape of one part. The shape is never longer than the part, and shaping it again changes nothing."""
    text, quoted = part[0], part[1]
    if quoted is None and text.startswith("["):
        return "[*]"
    key = text if quoted is None else quoted
    if _WHOLE_KEY.fullmatch(key):
        return "*" if quoted is None else "[*]"
    return _NUMBER_OF_KEY.sub("*", text)


def at(document: Any, location: Location, default: Any = None) -> Any:
    """Return the value at `location`, or `default` if the document has no such place."""
    value = document
    for part in location:
        if isinstance(part, int):
            if not isinstance(value, list) or part >= len(value):
                return default
        elif not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


MOST_STEPS = 300_000
"""The most steps that all rules of one handoff may take together. All claim fields together may take the same number.

This number of steps takes at most a second. An ordinary handoff takes some hundreds of steps.
"""


class StepBudgetSpentError(Exception):
    """Raised when a step budget is used up."""


class StepBudget:
    """A budget of steps, shared by all rules or by all claim fields of one handoff."""

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

_STEP = re.compile(
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
        found = _STEP.match(text, position)
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

    A `*` over an empty list or object selects nothing. A `*` over a value that is no list and no object yields
    `MISSING`. Each visited value spends one step of `effort`. Raises StepBudgetSpentError if the budget is used up.
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
    """Return `part` as a key of the document, or None if there is no such key. `targets.0` is read as `targets[0]`."""
    if isinstance(document, dict):
        return part if isinstance(part, str) and part in document else None
    if isinstance(document, list):
        index = int(part) if isinstance(part, str) and part.isascii() and part.isdecimal() else part
        return index if isinstance(index, int) and index < len(document) else None
    return None
