"""Masking of secrets in plain JSON, by the name of the field or the form of the text, as the server does it.

The client masks before it writes anything to its spool. A text without any part of a secret name and without any
beginning of a key has no secrets, so most handoffs take only some microseconds.
"""

from __future__ import annotations

import re
from functools import cache

from handoffaudit_client.assignments import WORDS, fold, mask_assignments
from handoffaudit_client.key_forms import LOOKS, compile_pattern
from handoffaudit_client.secret_names import of_all_below, of_number, of_text, remove_accents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from handoffaudit_client.key_forms import Look

MASKED = "[masked]"

_MOST_PASSES = 5

_SHORTEST = 4

_GLUED = re.compile(rf"(?<=\S){re.escape(MASKED)}|{re.escape(MASKED)}(?=\S)")

# Each name in `secret_names` and each of `WORDS` has one of these parts, in lower case and without accents.
PARTS = (
    *("pass", "pwd", "wort", "wachtwoord", "contrase", "losenord", "adgangskode", "salasana", "key", "secret"),
    *("recovery", "backup", "credential", "phrase", "token", "authorization", "cookie", "bearer", "jwt", "senha"),
    *("parola", "haslo", "heslo", "sifre", "jelszo", "clave", "pin", "otp", "cvv", "sig"),
)

_PARTS_BEYOND_ASCII = ("пароль", "密码", "密碼", "パスワード", "비밀번호")

# Settings, headers and form fields are often listed as `{"name": "DB_PASSWORD", "value": "…"}`.
_NAMING = ("name", "key", "header", "variable", "field")

_VALUED = ("value", "val", "default")


def mask_plain(value: Any, text: str) -> Any:
    """Return a plain value with its secrets masked; the same value if it has none.

    `text` is its JSON, with characters beyond ASCII as they are.
    """
    lower = fold(text)
    if not text.isascii():
        lower += remove_accents(lower)
    parts = [part for part in (PARTS if text.isascii() else (*PARTS, *_PARTS_BEYOND_ASCII)) if part in lower]
    # Most forms of keys occur only in long words, and most texts have few of these.
    spaced = text.encode("utf-8", "replace").translate(_SPACES)
    long_words = b" ".join([word for word in spaced.split() if len(word) >= _SHORTEST_KEY]).decode("ascii", "replace")
    starts = [(start, look) for start, look in _STARTS if start in long_words] if long_words else []
    starts += [(start, look) for start, look in _SPACED_STARTS if start in text]
    if not parts and not starts:
        return value
    words = [word for word in WORDS if _PART_OF[word] in parts and word in lower]
    mask = _Mask(tuple(words), tuple(starts))
    masked = mask.mask(value)
    return masked if mask.has_masked else value


_SHORTEST_KEY = 13

# Each ASCII character that no key contains becomes a space.
_SPACES = bytes(byte if byte >= 128 or chr(byte).isalnum() or chr(byte) in "_.~+/=:-" else 32 for byte in range(256))

_ALL_STARTS = tuple((start, look) for look in LOOKS for start in look.starts)

_SPACED_STARTS = tuple(one for one in _ALL_STARTS if " " in one[0] or "://" in one[0])

_STARTS = tuple(one for one in _ALL_STARTS if one not in _SPACED_STARTS)

_PART_OF = {word: next(part for part in (*PARTS, *_PARTS_BEYOND_ASCII) if part in word) for word in WORDS}


class _Mask:
    """The masking of one value, with only those words and forms of keys that its text can contain."""

    def __init__(self, words: tuple[str, ...], starts: tuple[tuple[str, Look], ...]) -> None:
        self._words = words
        self._starts = starts
        # The masked field names, cached because the objects in a list usually have the same fields.
        self._keys: dict[str, str] = {}
        self.has_masked = False

    def mask(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self.mask_text(value)
        if kind is dict:
            return self._mask_object(value)
        if kind is list:
            if len(value) == 2 and type(value[0]) is type(value[1]) is str and value[1] and of_text(value[0]):
                return [value[0], self._hide()]
            return [self.mask(one) for one in value]
        return value

    def mask_text(self, text: str) -> str:
        lower = text.lower() if text.isascii() else fold(text)
        for word in self._words:
            if word in lower:
                return self._mask_passes(text)
        for start, _ in self._starts:
            if start in text:
                return self._mask_passes(text)
        return text

    def _mask_passes(self, text: str) -> str:
        whole = text
        for _ in range(_MOST_PASSES):
            before, text = text, self._mask_once(text)
            # A secret directly after another one is recognised only after the first one is masked.
            if text == before or not _GLUED.search(text):
                break
        self.has_masked = self.has_masked or text != whole
        return text

    def _hide(self) -> str:
        self.has_masked = True
        return MASKED

    def _mask_once(self, text: str) -> str:
        if len(text) < _SHORTEST:
            return text
        if self._words:
            text = mask_assignments(text, MASKED, self._words)
        for start, look in self._starts:
            if start in text:
                text = _mask_look(text, start, look)
        return text

    def _mask_object(self, held: Mapping[str, Any]) -> dict[str, Any]:
        named = _find_name_in(held)
        kept: dict[str, Any] = {}
        keys = self._keys
        for key, value in held.items():
            name = named if named and key in _VALUED else key
            kind = type(value)
            if kind is str:
                masked = self._hide() if value and of_text(name) else self.mask_text(value)
            elif kind is dict or kind is list:
                masked = self._mask_all(value) if of_all_below(name) else self.mask(value)
            elif (kind is int or kind is float) and of_number(name):
                masked = self._hide()
            else:
                masked = value
            shown = keys.get(key)
            if shown is None or shown in kept:
                self._add(kept, key, masked)
            else:
                kept[shown] = masked
        return kept

    def _add(self, kept: dict[str, Any], key: str, value: Any) -> None:
        """Add a value under its masked name, with a number if `kept` has that name, so that no value is lost."""
        name = self._keys.get(key)
        if name is None:
            name = self._keys[key] = self.mask_text(key)
        masked, number = name, 1
        while name in kept:
            number += 1
            name = f"{masked} {number}"
        kept[name] = value

    def _mask_all(self, value: Any) -> Any:
        if isinstance(value, dict):
            kept: dict[str, Any] = {}
            for key, one in value.items():
                self._add(kept, key, self._mask_all(one))
            return kept
        if isinstance(value, list):
            return [self._mask_all(one) for one in value]
        return value if value is None or isinstance(value, bool) or value == "" else self._hide()


def _find_name_in(held: Mapping[str, Any]) -> str:
    """Return the secret's name in an object that holds a name and a value, or ''."""
    if "value" not in held and "val" not in held and "default" not in held:
        return ""
    names = (held.get(key) for key in _NAMING)
    return next((name for name in names if isinstance(name, str) and of_text(name)), "")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    # Compile at the first use: most texts need no pattern.
    return compile_pattern(pattern)


def _mask_look(text: str, start: str, look: Look) -> str:
    pattern = _compile(look.pattern)
    parts: list[str] = []
    copied = 0
    place = text.find(start)
    while place >= 0:
        found = pattern.match(text, max(place - look.back, copied))
        if found:
            begin, end = found.span(pattern.groups)
            parts += [text[copied:begin], MASKED]
            copied = end
        place = text.find(start, max(copied, place + 1))
    return "".join([*parts, text[copied:]])
