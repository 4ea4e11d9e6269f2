"""Names of fields that hold secrets, the same as in the server."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Endings of a secret's name, after its separators are removed.
_PASSWORDS = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "kennwort", "passwort", "motdepasse", "contrasena"),
    *("wachtwoord", "losenord", "passord", "adgangskode", "salasana", "пароль", "密码", "密碼", "パスワード"),
    *("비밀번호", "dbpass", "userpass", "adminpass", "rootpass", "sqlpass", "smtppass", "ftppass", "ldappass"),
)

_KEYS = (
    *("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "masterkey", "accountkey"),
    *("sharedkey", "storagekey", "subscriptionkey", "sshkey", "secretkeybase", "secretaccesskey", "secret"),
    *("credential", "seedphrase", "recoverycode", "backupcode"),
)

_TOKENS = ("token", "authorization", "cookie", "bearer", "jwt")

# Of the names that end in `tokens`, only names with these endings are secret. A plain `tokens` counts or lists words.
_TOKEN_LISTS = ("accesstokens", "refreshtokens", "apitokens", "authtokens", "bearertokens", "sessiontokens")

# These words are too short or too common to be matched at the end of a word.
_WORDS = frozenset({"senha", "parola", "haslo", "heslo", "sifre", "jelszo", "clave", "pin", "otp", "cvv"})

_BESIDE = ("value", "plain", "plaintext", "confirmation", "confirm", "repeat", "hash", "string", "header", "encoded")

_LONGEST_NAME = 200

_SEPARATED = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def of_text(name: str) -> bool:
    """Return whether a text under that name is a secret."""
    return of_all_below(name) or _ends(name, _TOKENS)


@lru_cache(maxsize=4096)
def of_number(name: str) -> bool:
    """Return whether a number under that name is a secret. A numeric `token` is a count."""
    return _ends(name, _PASSWORDS) or _last_word(name) in _WORDS


@lru_cache(maxsize=4096)
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
    # Removing accents also splits characters such as 비 and パ, so they are composed again.
    bare = unicodedata.normalize("NFC", remove_accents(name[-_LONGEST_NAME:]))
    return tuple(word.casefold() for word in _SEPARATED.split(bare) if word)


def remove_accents(text: str) -> str:
    """Return the text without accents, with its characters decomposed."""
    plain = unicodedata.normalize("NFKD", text)
    return "".join(char for char in plain if not "\u0300" <= char <= "\u036f")
