"""Masking of values that are assigned to a name such as `password=`, as the server does it."""

from __future__ import annotations

import re
from functools import cache

from handoffaudit_client.key_forms import compile_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Words in the names of secrets. Each match of `_HEAD` begins with one of them, so `_HEAD` is tried only there.
WORDS = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "pin", "passwort", "kennwort", "wachtwoord", "senha"),
    *("parola", "de passe", "de_passe", "de-passe", "depasse", "contrase", "пароль", "密码", "密碼", "パスワード"),
    *("비밀번호", "authorization", "cookie", "secret", "key", "token", "sig", "_pass"),
)

_HEAD = r"""
    (?: (?P<password>pass(?:word|wd|phrase|code)|pwd|passwort|kennwort|de[ _-]?passe|contrase[ñn]a
            |wachtwoord|пароль|密码|密碼|パスワード|비밀번호|(?<![a-z])(?:senha|parola|pin))
      | (?P<header>authorization|cookie)
      | secret(?:[ _-]?(?:access[ _-]?)?(?:key|token|value))?
      | (?:(?<=api)|(?<=api[ _-])|(?<=(?:access|shared|master))|(?<=(?:access|shared|master)[ _-])
          |(?<=(?:private|signing|account|storage))|(?<=(?:private|signing|account|storage)[ _-])
          |(?<=encryption)|(?<=encryption[ _-])|(?<=subscription)|(?<=subscription[ _-])|(?<=auth)|(?<=auth[ _-])) key
      | token | (?<=[?&])sig
      | _(?:(?-i:PASS)|pass(?=[=:"'`\\]))(?=\\{0,4}["'`]?[ \t]{0,4}[=:])
    )
    \d{0,2}
    (?: \\{0,4}["'`]?[ \t]{0,4}(?P<sign>=>|:=|==?|:|\uff1a)[ \t]{0,4}(?P<open>\\{0,4}["'`])?
      | [ \t]{1,4}(?P<is>is)[ \t]{1,4}
      | [ \t]{1,4}(?=[^\s-])
    )
"""

# In every assignment, one of these characters comes after the name.
_SIGNS = (":", "=", " ", "\t", "\uff1a")

# Only this many characters of a value are judged. Otherwise, a hostile text with many names in one long value would be
# read again for each name.
_JUDGED = 100

_LONGEST_QUOTED = 4000

_MOST_ESCAPES = 64

_RUN = compile_pattern(r"[^\s;&\"'`<>]*+")

# A cookie's own value may be in quotes.
_LINE = compile_pattern(r"(?:[^\n\"'`]|(?<==)\"[^\n\"]*\")*+")

_REST_OF_LINE = compile_pattern(r"[^\n]*+")

_ENDS = ("", "\n", "\r", ",", ";")

_AFTER = ",.!?:)]}\\"

_PLACEHOLDER = re.compile(
    r"""(?: \*+ | [.]{3} | … | \$\{[^}]*\} | (?-i:\$[A-Z_]{3,}) | \$\([^)]*\) | <[^>]*> | \{\{.* | %\(\w+\)s
            | none | null | nil | true | false | undefined )[,.!?:)\]}]*\Z""",
    re.IGNORECASE | re.VERBOSE,
)

_SCHEME = re.compile(r"(?:basic|bearer|digest|token|negotiate|apikey|ssws|aws4-hmac-sha256)\s+\S", re.IGNORECASE)

_FLAG = re.compile(r"--[a-z-]{0,30}\Z", re.IGNORECASE)

_NETRC = re.compile(r"\blogin\s{1,4}\S{1,100}\s{1,4}\Z")

_DIGIT = re.compile(r"\d")

_LOOKED_BACK = 120

_SHORTEST_KEY = 8


def fold(text: str) -> str:
    """Return the text in lower case, with all characters at their positions."""
    # The letter İ becomes longer in lower case and would shift all positions after it.
    return text.replace("\u0130", "I").lower()


@cache
def _head() -> re.Pattern[str]:
    return re.compile(_HEAD, re.VERBOSE | re.IGNORECASE)


def mask_assignments(text: str, mask: str, words: Sequence[str] = WORDS) -> str:
    """Return the text with `mask` in place of each value that is assigned to one of the words."""
    if not any(sign in text for sign in _SIGNS):
        return text
    parts: list[str] = []
    copied = 0
    for place in _places(text, words):
        head = _head().match(text, place) if place >= copied else None
        if not head or text.startswith(mask, head.end()):
            continue
        end = _end_of_value(text, head)
        if end > head.end():
            parts += [text[copied : head.end()], mask]
            copied = end
    return "".join([*parts, text[copied:]])


def _places(text: str, words: Sequence[str]) -> list[int]:
    lower = fold(text)
    found: list[int] = []
    for word in words:
        place = lower.find(word)
        while place >= 0:
            found.append(place)
            place = lower.find(word, place + len(word))
    return sorted(found)


def _end_of_value(text: str, head: re.Match[str]) -> int:
    """Return the end of the value after `head`, or the end of `head` if no value follows."""
    start = head.end()
    if head["open"]:
        return _end_of_quoted(text, start, head["open"])
    if head["header"]:
        return _LINE.match(text, start).end() if _is_header(text, start, head) else start  # type: ignore[union-attr]
    judged = _RUN.match(text, start, start + _JUDGED)[0]  # type: ignore[index]
    if _PLACEHOLDER.match(judged) or not _is_value(judged.rstrip(_AFTER), text, head):
        return start
    run: str = _RUN.match(text, start)[0]  # type: ignore[index]
    return start + len(run.rstrip(_AFTER) or run)


def _end_of_quoted(text: str, start: int, closing: str) -> int:
    end = _closing_quote(text, start, closing)
    if end < 0:
        end = _REST_OF_LINE.match(text, start, start + _LONGEST_QUOTED).end()  # type: ignore[union-attr]
    return start if _PLACEHOLDER.match(text, start, end) else end


def _closing_quote(text: str, start: int, closing: str) -> int:
    """Return the position of the first quote that is not escaped, or -1.

    `closing` is the quote with the backslashes before it, and the position is that of `closing`. Each level of quoting
    doubles the backslashes and adds one before a quote. The closing quote has `depth` backslashes before it, as many as
    the opening quote. Further backslashes are text of the value if their number is a multiple of `2 * (depth + 1)`;
    otherwise, they escape the quote.
    """
    depth = len(closing) - 1
    place = text.find(closing, start, start + _LONGEST_QUOTED)
    while place >= 0:
        before = text[max(start, place + depth - _MOST_ESCAPES) : place + depth]
        if (len(before) - len(before.rstrip("\\")) - depth) % (2 * (depth + 1)) == 0:
            return place
        place = text.find(closing, place + 1, start + _LONGEST_QUOTED)
    return -1


def _is_header(text: str, start: int, head: re.Match[str]) -> bool:
    if not head["sign"]:
        return False
    judged = text[start : start + _JUDGED].partition("\n")[0]
    if head["header"].lower() == "cookie":
        return "=" in judged
    return bool(_SCHEME.match(judged) or _DIGIT.search(judged.split(" ")[0]))


def _is_value(run: str, text: str, head: re.Match[str]) -> bool:
    """Return whether the text after a name is a value and not the next word of a sentence."""
    if not run:
        return False
    if not head["sign"]:
        if head["is"]:
            return bool(head["password"]) and not run.isalpha()
        before = text[max(0, head.start() - _LOOKED_BACK) : head.start()]
        return bool(_FLAG.search(before) or _NETRC.search(before))
    if "=" in head["sign"]:
        return not _is_folder(head["password"], run)
    if head["password"]:
        # A plain word is a password only before one of `_ENDS`. Before any other text, the word begins a sentence.
        end = head.end() + len(run)
        return not run.isalpha() or text[end : end + 1] in _ENDS
    return len(run) >= _SHORTEST_KEY and bool(_DIGIT.search(run))


def _is_folder(name: str | None, run: str) -> bool:
    """Return whether the value is a folder: shells set `PWD` to their working directory, not to a password."""
    return name is not None and name.upper().endswith("PWD") and run.startswith("/")
