"""A sender's text, made safe to look at: nothing in it hides, reorders what stands beside it, or fills the page."""

import json
import unicodedata
from html import escape
from typing import Any

_KEPT = "\n\t\u200c\u200d"
_SHOWN_AS_CODE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def readable(text: str) -> str:
    """Control, direction and surrogate characters as `⟨U+202E⟩`; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(_readable_character(character) for character in text.replace("\r\n", "\n"))


def _readable_character(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _SHOWN_AS_CODE:
        return character
    return f"⟨U+{ord(character):04X}⟩"


def cut(text: str, length: int) -> str:
    """`text` made readable, at most so many of its characters; `…` marks the cut."""
    return readable(text) if len(text) <= length else f"{readable(text[:length])}…"


def as_json(value: Any) -> str:
    """A JSON value, texts in quotes so that `"0.8"` is not taken for 0.8; one of several lines keeps its lines."""
    if isinstance(value, str) and "\n" in value:
        return f'"{value}"'
    return json.dumps(value, ensure_ascii=False)


def weight(text: str) -> int:
    """How many bytes it takes on a page: a sender can make each character twelve."""
    return len(escape(text).encode("utf-8", "replace"))
