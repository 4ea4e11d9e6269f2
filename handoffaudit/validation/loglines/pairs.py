"""`key=value` pairs separated by spaces, as health lines have them.

A value is quoted where it is empty, or holds white space, a quotation mark, a backslash, or a character that can't be
printed. Within quotation marks `\\"`, `\\\\`, `\\n`, `\\r`, `\\t` and `\\uXXXX` are escapes; any other backslash is
itself.
"""

import re

from handoffaudit.validation.loglines.faults import Fault
from handoffaudit.validation.text import shown

_PAIR = re.compile(r'[ \t]*([A-Za-z_][\w.-]*)=(?:"((?:[^"\\]|\\.)*)"(?=[ \t]|$)|([^ \t"][^ \t]*)?(?=[ \t]|$))[ \t]*')
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\nrt]))')
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_SHORT = {char: "\\" + letter for letter, char in _ESCAPED.items()}


def read_pairs(text: str) -> dict[str, str]:
    """Raises `Fault` for what is no pair, and for a key that is there twice."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            raise Fault(f"key=value pairs are expected, and there is {shown(text[at:])}")
        key, quoted, plain = match.groups()
        if key in found:
            raise Fault(f"the key {key}= is expected once, and is there twice")
        found[key] = unquoted(quoted) if quoted is not None else plain or ""
        at = match.end()
    return found


def unquoted(text: str) -> str:
    """What stands between quotation marks, without its escapes."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescaped, text)
    # two halves of a surrogate pair are one character; half a pair is none
    return plain if plain.isascii() else plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _ESCAPED[match[2]]


def write_value(value: str) -> str:
    """Half a surrogate pair, which no text file can hold, becomes a question mark."""
    value = value.encode("utf-8", "replace").decode()
    if value and value.isprintable() and not any(char in value for char in ' "\\') and not _has_space(value):
        return value
    return '"' + "".join(_escaped(char) for char in value) + '"'


def _has_space(value: str) -> bool:
    return any(char.isspace() for char in value)


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable() or char == " ":
        return char
    return "".join(f"\\u{int.from_bytes(pair, 'big'):04x}" for pair in _pairs_of(char))


def _pairs_of(char: str) -> list[bytes]:
    encoded = char.encode("utf-16-be")
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]
