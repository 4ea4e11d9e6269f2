"""Places in a JSON document, written as people and as machines read them."""

import re
from typing import Any

Location = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[^\s.\[\]\"]+\Z")


def dotted(location: Location) -> str:
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
    return dotted(location[max(start, 0) :])


def pointer(location: Location) -> str:
    """The same place as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


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
