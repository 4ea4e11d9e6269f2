"""The search for an erased value in texts, documents and JSON values, and its replacement by a marker."""

import re
import unicodedata
from typing import Any, Final

import orjson

MARKER: Final = "[erased]"
# A text can hold JSON inside JSON, where each level doubles the backslashes.
_SLASHES: Final = r"\\{1,8}"
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"')
_ESCAPED: Final = '"/'
# A run of backslashes and the next character are one part, because JSON may escape a character with backslashes.
# So are neighbouring white spaces, because a line may be wrapped between two words.
_PARTS: Final = re.compile(r"\\+[^\\\s]?|\s+|[^\\]")
_UNITS: Final = "|".join(f"{unit:04x}" for unit in range(0x10000) if chr(unit).isspace())
_SPACES: Final = rf"(?:\s|{_SLASHES}(?:[nrt]|u(?i:{_UNITS})))+"
_ESCAPE: Final = re.compile(rf"{_SLASHES}u([0-9a-fA-F]{{4}})")
_BEFORE: Final = r"(?:(?<!\w)|(?<=\\[nrtbf])|(?P<escape>(?<=\\u[0-9a-fA-F]{4})))"
_AFTER: Final = r"(?!\w)"


def replace(content: Any, pattern: re.Pattern[str], folded: str) -> Any:
    """Return a text, the bytes of a document, or JSON values, with the marker in place of the value.

    `folded` is the value in case-folded form. If the value does not occur, return the same object.
    """
    if isinstance(content, dict | list):
        before = orjson.dumps(content).decode()
        after = replace(before, pattern, folded)
        return content if after == before else orjson.loads(after)
    is_text = isinstance(content, str)
    text = content if is_text else bytes(content).decode(errors="surrogateescape")
    # The search for plain text is much faster than the pattern, and most rows do not have the value.
    # Of a value with spaces, the longest part is searched, because any white space may stand between the parts.
    if "\\" not in text and text.isascii() and max(folded.split(), key=len) not in text.lower():
        return content
    changed = pattern.sub(_mark, text)
    if changed == text:
        return content
    if not _is_json(changed) and _is_json(text):
        changed = _replace_in_strings(text, pattern)
    return changed if is_text else changed.encode(errors="surrogateescape")


def _mark(found: re.Match[str]) -> str:
    """Return the marker, or the match itself if an escaped letter beside it makes it a part of a word."""
    units = [found.string[found.start() - 4 : found.start()]] if found.lastgroup else []
    if after := _ESCAPE.match(found.string, found.end()):
        units.append(after[1])
    return found[0] if any(chr(int(unit, 16)).isalnum() for unit in units) else MARKER


def _replace_in_strings(text: str, pattern: re.Pattern[str]) -> str:
    """Return JSON with the marker in its strings only. A string that would become invalid JSON is replaced whole."""

    def change(found: re.Match[str]) -> str:
        changed = f'"{pattern.sub(_mark, found[1])}"'
        return changed if _is_json(changed) else f'"{MARKER}"'

    return _STRING.sub(change, text)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text.removeprefix("\ufeff"))
    except orjson.JSONDecodeError:
        return False
    return True


def pattern_of(value: str) -> re.Pattern[str]:
    """Return the pattern of a value as a whole word, in plain text and in JSON with escaped characters.

    A value that consists of one word of ASCII letters is matched case-sensitively. The same word in lower case may be a
    word of the product. Other values ignore case.
    """
    forms = dict.fromkeys(unicodedata.normalize(form, value) for form in ("NFC", "NFD"))
    flags = re.NOFLAG if value.isalpha() and value.isascii() else re.IGNORECASE
    body = "|".join("".join(_part_pattern(part, flags) for part in _PARTS.findall(form)) for form in forms)
    before = "" if value.startswith("\\") else _BEFORE
    return re.compile(f"{before}(?:{body}){_AFTER}", flags)


def _part_pattern(part: str, flags: re.RegexFlag) -> str:
    """Return the pattern of a character, or of a run of backslashes with the character after it.

    With a pattern for each backslash of a run, there would be exponentially many ways to match the backslashes of a
    text.
    """
    char = part.lstrip("\\")
    rest = _char_pattern(char, flags) if char else ""
    if not (number := len(part) - len(char)):
        return rest
    return rf"(?>(?:(?<!\\)\\{{{number},}}|(?:{_SLASHES}u(?i:005c)){{{number}}}){rest})"


def _char_pattern(char: str, flags: re.RegexFlag) -> str:
    if char.isspace():
        return _SPACES
    # In `\u` escapes, upper and lower case have different code units.
    other = char.swapcase()
    cases = (char, other) if flags & re.IGNORECASE and len(other) == 1 and other != char else (char,)
    units = [one.encode("utf-16-be").hex() for one in cases]
    escaped = "|".join("".join(f"{_SLASHES}u(?i:{one[at : at + 4]})" for at in range(0, len(one), 4)) for one in units)
    slashes = r"\\{0,8}" if char in _ESCAPED else ""
    return f"(?:{slashes}{re.escape(char)}|{escaped})"
