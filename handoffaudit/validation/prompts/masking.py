"""Masking of secrets in values that go to an LLM or a log, by the name of the field or the form of the text."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from handoffaudit.validation.prompts.secrets import MASKED, mask_text

# Endings of the names of secrets. They are compared with a name without its separators, in lower case.
_PASSWORDS: tuple[str, ...] = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "kennwort",
    "passwort",
    "motdepasse",
)

_PASSWORDS += (
    "contrasena",
    "wachtwoord",
    "losenord",
    "passord",
    "adgangskode",
    "salasana",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
)

_PASSWORDS += ("dbpass", "userpass", "adminpass", "rootpass", "sqlpass", "smtppass", "ftppass", "ldappass")

_KEYS: tuple[str, ...] = ("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "masterkey")

_KEYS += (
    "accountkey",
    "sharedkey",
    "storagekey",
    "subscriptionkey",
    "sshkey",
    "secretkeybase",
    "secretaccesskey",
    "secret",
)

_KEYS += ("credential", "seedphrase", "recoverycode", "backupcode")

_TOKENS = ("token", "authorization", "cookie", "bearer", "jwt")

# Of the names that end in `tokens`, only names with these endings are secret. A plain `tokens` counts or lists words.
_TOKEN_LISTS = ("accesstokens", "refreshtokens", "apitokens", "authtokens", "bearertokens", "sessiontokens")

# These words are too short or too common to be matched at the end of a word.
_WORDS = frozenset({"senha", "parola", "haslo", "heslo", "sifre", "jelszo", "clave", "pin", "otp", "cvv"})

_BESIDE = ("value", "plain", "plaintext", "confirmation", "confirm", "repeat", "hash", "string", "header", "encoded")

_LONGEST_NAME = 200

_SEPARATED = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")


def of_text(name: str) -> bool:
    """Return whether a text under that name is a secret."""
    return of_all_below(name) or _ends(name, _TOKENS)


def of_number(name: str) -> bool:
    """Return whether a number under that name is a secret. A numeric `token` is a count."""
    return _ends(name, _PASSWORDS) or _last_word(name) in _WORDS


def of_all_below(name: str) -> bool:
    """Return whether every value in a list or an object under that name is a secret."""
    return _ends(name, (*_PASSWORDS, *_KEYS, *_TOKEN_LISTS)) or _last_word(name) in _WORDS


@lru_cache(maxsize=4096)
def _ends(name: str, endings: tuple[str, ...]) -> bool:
    bare = "".join(_words(name)).rstrip("0123456789")
    without_suffix = next((bare.removesuffix(word) for word in _BESIDE if bare.endswith(word)), bare)
    singular = bare if bare.endswith("tokens") else bare.removesuffix("s")
    return any(text.endswith(endings) for text in (bare, without_suffix, singular))


def _last_word(name: str) -> str:
    return next(reversed(_words(name)), "")


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case and without accents. Of an overlong name, use only the end."""
    plain = unicodedata.normalize("NFKD", name[-_LONGEST_NAME:])
    # The decomposition also splits characters such as 비 and パ, so they are composed again.
    bare = unicodedata.normalize("NFC", "".join(char for char in plain if not "\u0300" <= char <= "\u036f"))
    return tuple(word.casefold() for word in _SEPARATED.split(bare) if word)


__all__ = ["MASKED", "mask_secrets"]

# Settings, headers and form fields are often listed as `{"name": "DB_PASSWORD", "value": "…"}`.
NAMING = ("name", "key", "header", "variable", "field")

VALUED = ("value", "val", "default")


def mask_secrets(value: Any) -> Any:
    """Return a copy of a JSON value with its secrets masked; objects and lists keep their structure."""
    match value:
        case dict():
            return _mask_object(value)
        case [str() as name, str() as held] if held and of_text(name):
            return [name, MASKED]
        case list():
            return [mask_secrets(one) for one in value]
        case str():
            return mask_text(value)
        case _:
            return value


def _mask_object(held: Mapping[str, Any]) -> dict[str, Any]:
    named = _find_name_in(held)
    return _under_distinct_keys(
        (mask_text(key), _mask_under(named if named and key in VALUED else key, held[key])) for key in held
    )


def _under_distinct_keys(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return all entries, with a number after repeated keys.

    Otherwise, two keys that are equal after masking would lose one of their values.
    """
    kept: dict[str, Any] = {}
    number = 1
    for key, value in entries:
        name = key
        # A sender may have keys that look like numbered keys.
        while name in kept:
            number += 1
            name = f"{key} {number}"
        kept[name] = value
    return kept


def _find_name_in(held: Mapping[str, Any]) -> str:
    """Return the secret's name in an object of a name and a value, or an empty text if there is none."""
    if not any(key in held for key in VALUED):
        return ""
    names = (held.get(key) for key in NAMING)
    return next((name for name in names if isinstance(name, str) and of_text(name)), "")


def _mask_under(name: str, value: Any) -> Any:
    match value:
        case None | bool() | "":
            return value
        case str():
            return MASKED if of_text(name) else mask_text(value)
        case int() | float():
            return MASKED if of_number(name) else value
        case _:
            return _mask_all(value) if of_all_below(name) else mask_secrets(value)


def _mask_all(value: Any) -> Any:
    match value:
        case dict():
            return _under_distinct_keys((mask_text(key), _mask_all(one)) for key, one in value.items())
        case list():
            return [_mask_all(one) for one in value]
        case None | bool() | "":
            return value
        case _:
            return MASKED
