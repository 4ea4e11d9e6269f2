"""Places in a JSON document, written as people and as machines read them."""

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
    r"|(?=(?:\D*\d){4})[\w-]{20,}"  # what a generator of ids makes
    r"|.*(?:@|://).*",  # an address
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
# The number of a key that is a name and a number: `step_12`, `ORD-4711`, `order4711`, but not `sha256`.
_NUMBER_OF_KEY = re.compile(r"(?<=[_\-#])\d+(?![A-Za-z0-9])|(?<=[A-Za-z])\d{4,}(?![A-Za-z0-9])")


def dotted_path(location: Location) -> str:
    """`("files", 2, "path")` as `files[2].path`; a key that is not a plain word is quoted."""
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
    """The last key with the list positions after it, `files[2]`: for a text that stands beside the path."""
    start = len(location) - 1
    while start > 0 and isinstance(location[start], int):
        start -= 1
    return dotted_path(location[max(start, 0) :])


def pointer(location: Location) -> str:
    """The same place as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def shape(field_path: str) -> str:
    """The kind of place that a dotted path names: `data.items[3].price` and `data.items[12].price` are both
    `data.items[*].price`. Keys that are numbers, dates, hashes, ids or addresses become `*` too, and so does the number
    in `step_12`. Any text will do; at most 500 characters of it count."""
    text = field_path[:LONGEST_SHAPED]
    while (shaped := _PART.sub(_shaped, text)) != text:
        text = shaped
    return text


def _shaped(part: re.Match[str]) -> str:
    """Never longer than the part was, and the same again when it is shaped again."""
    text, quoted = part[0], part[1]
    if quoted is None and text.startswith("["):
        return "[*]"
    key = text if quoted is None else quoted
    if _WHOLE_KEY.fullmatch(key):
        return "*" if quoted is None else "[*]"
    return _NUMBER_OF_KEY.sub("*", text)


def at(document: Any, location: Location, default: Any = None) -> Any:
    """The value at `location`, or `default` where there is none."""
    value = document
    for part in location:
        if isinstance(part, int):
            if not isinstance(value, list) or part >= len(value):
                return default
        elif not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value
