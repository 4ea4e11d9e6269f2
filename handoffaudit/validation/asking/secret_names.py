"""Names of fields that hold secrets: `OPENAI_API_KEY`, `clientSecret`, `access-token`, `contraseña`."""

import re
import unicodedata
from functools import lru_cache

# what a name ends with once its separators are gone
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
# of many tokens: a plain `tokens` counts or lists words
_TOKEN_LISTS = ("accesstokens", "refreshtokens", "apitokens", "authtokens", "bearertokens", "sessiontokens")
# too short or too common to be looked for at the end of a word
_WORDS = frozenset({"senha", "parola", "haslo", "heslo", "sifre", "jelszo", "clave", "pin", "otp", "cvv"})
_BESIDE = ("value", "plain", "plaintext", "confirmation", "confirm", "repeat", "hash", "string", "header", "encoded")
_LONGEST_NAME = 200

_SEPARATED = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")


def of_text(name: str) -> bool:
    """Whether a text of that name is a secret."""
    return of_all_below(name) or _ends(name, _TOKENS)


def of_number(name: str) -> bool:
    """Whether a number is one; a `token` that is a number is a count."""
    return _ends(name, _PASSWORDS) or _last_word(name) in _WORDS


def of_all_below(name: str) -> bool:
    """Whether all that stands in a list or an object of that name is secret."""
    return _ends(name, (*_PASSWORDS, *_KEYS, *_TOKEN_LISTS)) or _last_word(name) in _WORDS


@lru_cache(maxsize=4096)
def _ends(name: str, endings: tuple[str, ...]) -> bool:
    bare = "".join(_words(name)).rstrip("0123456789")
    beside = next((bare.removesuffix(word) for word in _BESIDE if bare.endswith(word)), bare)
    singular = bare if bare.endswith("tokens") else bare.removesuffix("s")
    return any(text.endswith(endings) for text in (bare, beside, singular))


def _last_word(name: str) -> str:
    return next(reversed(_words(name)), "")


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    """In lower case and without accents. Of an overlong name its end."""
    plain = unicodedata.normalize("NFKD", name[-_LONGEST_NAME:])
    # what was composed of two is put together again where it is a letter of its own: й, 비, パ
    bare = unicodedata.normalize("NFC", "".join(char for char in plain if not "\u0300" <= char <= "\u036f"))
    return tuple(word.casefold() for word in _SEPARATED.split(bare) if word)
