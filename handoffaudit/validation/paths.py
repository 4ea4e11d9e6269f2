"""Places in a JSON document: dotted paths for people, and JSON Pointers for machines."""

import re
from typing import Any

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
    """Return the shape of one part. It is never longer than the part, and its own shape is the same."""
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
