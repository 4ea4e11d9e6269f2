"""Masking of secrets inside a text: values assigned to a name such as `password=`, and keys of a known form."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

# Endings of a secret's name; the pattern below contains each of them.
_WORDS = (
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

# One of these characters follows every name.
_SIGNS = (":", "=", " ", "\t", "\uff1a")

# Only the beginning of a value is judged. Otherwise, a hostile text could cause many reads of the same characters.
_JUDGED = 100

_LONGEST_QUOTED = 4000

_MOST_ESCAPES = 64

_RUN = re.compile(r"[^\s;&\"'`<>]*+")

# A cookie's own value may be in quotes.
_LINE = re.compile(r"(?:[^\n\"'`]|(?<==)\"[^\n\"]*\")*+")

_REST_OF_LINE = re.compile(r"[^\n]*+")

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


@cache
def _head() -> re.Pattern[str]:
    return re.compile(_HEAD, re.VERBOSE | re.IGNORECASE)


def mask_assignments(text: str, mask: str) -> str:
    """Return the text with `mask` in place of each assigned value."""
    if not any(sign in text for sign in _SIGNS):
        return text
    parts: list[str] = []
    copied = 0
    for place in _places(text):
        head = _head().match(text, place) if place >= copied else None
        if not head or text.startswith(mask, head.end()):
            continue
        end = _end_of_value(text, head)
        if end > head.end():
            parts += [text[copied : head.end()], mask]
            copied = end
    return "".join([*parts, text[copied:]])


def _places(text: str) -> list[int]:
    """Return the positions in the text at which one of `_WORDS` begins, in order."""
    # The letter İ becomes longer in lower case and would shift all positions after it.
    lower = text.replace("\u0130", "I").lower()
    found: list[int] = []
    for word in _WORDS:
        place = lower.find(word)
        while place >= 0:
            found.append(place)
            place = lower.find(word, place + len(word))
    return sorted(found)


def _end_of_value(text: str, head: re.Match[str]) -> int:
    """Return the end of the value after `head`, or the end of `head` if no value or only a placeholder follows."""
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

    Each level of quoting doubles the backslashes and adds one before a quote. The closing quote has as many backslashes
    before it as the opening quote. Further backslashes are text of the value if their number is a multiple of
    `2 * (depth + 1)`; otherwise, they escape the quote.
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
    return bool(_SCHEME.match(judged)) or _has_digit(judged.split(" ")[0])


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
        # A single plain word is a password if nothing follows. Otherwise, the word begins a sentence.
        end = head.end() + len(run)
        return not run.isalpha() or text[end : end + 1] in _ENDS
    return len(run) >= _SHORTEST_KEY and _has_digit(run)


def _is_folder(name: str | None, run: str) -> bool:
    """Return whether the value is a shell's working directory, whose name `PWD` looks like the name of a password."""
    return name is not None and name.upper().endswith("PWD") and run.startswith("/")


def _has_digit(run: str) -> bool:
    return bool(_DIGIT.search(run))


@dataclass(frozen=True, slots=True)
class Look:
    """The form of a kind of key.

    `starts` are fixed texts in or just before the key. `pattern` is matched at the position of such a text, or `back`
    characters before that position. If the pattern has a group, the group is the secret.
    """

    starts: tuple[str, ...]
    pattern: str
    back: int = 0


def _key(starts: str, rest: str) -> Look:
    """Return the form of a word that begins with one of the words in `starts` and continues as `rest`."""
    words = tuple(starts.split())
    return Look(words, rf"\b(?:{'|'.join(word.replace('.', '[.]') for word in words)}){rest}")


# A lookahead for kinds of keys that always have digits. A text of the same form without a digit is usually a word with
# hyphens, such as `sk-learn-compatible-model`.
_DIGIT_AHEAD = r"(?=[\w-]{0,60}\d)"

_HEX = r"[0-9a-fA-F]"

LOOKS: Final = (
    # Private keys: the whole key, or the available part of a key that is cut off.
    Look(
        ("-----BEGIN ",),
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"[^-]*+(?:-(?!----)[^-]*+)*(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    Look(("PuTTY-User-Key-File-",), r"PuTTY-User-Key-File-\d:[^-]{0,8000}+(?:-[^-]{0,8000}+){0,9}"),
    _key("AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}+"),
    # JSON web tokens.
    Look(("eyJ",), r"(?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{4,}+(?:\.[\w-]*+){1,3}"),
    # Keys of handoffaudit itself.
    _key("ha_", r"[\w-]{43}(?![\w-])"),
    # One-time links of handoffaudit, with which anybody can set the password of the person.
    Look(("/welcome/",), r"/welcome/\w{1,20}/([0-9a-z]{1,13}-[0-9a-f]{32})(?![\w-])"),
    # LLM services.
    _key("sk- pk- rk-", rf"{_DIGIT_AHEAD}[\w-]{{16,}}+"),
    _key("gsk_ hf_ r8_ fw_ xai- pplx- nvapi- csk- tgp_v1_", rf"{_DIGIT_AHEAD}[\w-]{{20,}}+"),
    # Payment services.
    _key("sk_live_ sk_test_ pk_live_ rk_live_ rk_test_", r"\w{10,}+"),
    _key("whsec_", r"[\w+/=]{16,}+"),
    _key("sq0atp- sq0csp- sq0idp-", r"[\w-]{20,}+"),
    _key("shpat_ shpca_ shppa_ shpss_", rf"{_HEX}{{20,}}+"),
    _key("access-sandbox- access-production-", r"[0-9a-f-]{30,}+"),
    # Code hosting and package registries.
    _key("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"\w{20,}+"),
    _key("glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent-", r"[\w.-]{16,}+"),
    _key("npm_", r"[A-Za-z0-9]{30,}+"),
    _key("pypi-", r"[\w-]{50,}+"),
    _key("rubygems_ bkua_ sqp_ squ_ sqa_", rf"{_HEX}{{30,}}+"),
    _key("dckr_pat_ dckr_oat_ CCIPAT_", r"[\w-]{20,}+"),
    _key("ATATT3 ATBB ATCTT3", r"[\w=-]{24,}+"),
    # Cloud providers.
    _key("AKIA ASIA", r"[A-Z0-9]{16}\b"),
    _key("LTAI AKID", r"(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{12,40}\b"),
    _key("AIza", r"[\w-]{30,}+"),
    _key("ya29. GOCSPX- 1//0", r"[\w-]{20,}+"),
    _key("doo_v1_ dop_v1_ dor_v1_", rf"{_HEX}{{40,}}+"),
    _key("HRKU- fo1_ nfp_", rf"{_DIGIT_AHEAD}[\w-]{{20,}}+"),
    _key("dapi", rf"{_HEX}{{32}}(?:-\d)?\b"),
    Look(("8Q~",), r"\b\w{3}8Q~[\w.~-]{30,}+", back=3),
    _key("pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.-]{20,}+"),
    _key("sbp_", rf"{_HEX}{{30,}}+"),
    _key("hvs. hvb. hvr.", r"[\w-]{20,}+"),
    Look((".atlasv1.",), r"\b\w{14}\.atlasv1\.[\w-]{40,}+", back=14),
    _key("pul-", rf"{_HEX}{{40}}\b"),
    _key("dp.pt. dp.st. dp.ct. dp.sa.", r"[\w.]{30,}+"),
    # Messaging services.
    _key("xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs-", r"[\w.-]{10,}+"),
    _key("xapp-", r"\d-[\w-]{20,}+"),
    Look(("hooks.slack.com/",), r"hooks\.slack\.com/((?:services|workflows|triggers)/[\w/-]{10,}+)"),
    Look(("/api/webhooks/",), r"/api/webhooks/\d{5,25}/([\w-]{20,}+)"),
    _key("MT MD Mj Mz ND NT Nj Nz OD OT", r"[\w-]{20,26}\.[\w-]{6}\.[\w-]{27,}+"),
    Look((":AA",), r"(?<=\d{8}):(AA[\w-]{30,}+)"),
    _key("SG.", r"[\w-]{16,32}\.[\w-]{16,}+"),
    _key("SK", r"[0-9a-f]{32}\b"),
    _key("key-", r"[0-9a-f]{32}\b"),
    Look(("-us",), r"\b[0-9a-f]{32}-us\d{1,2}\b", back=32),
    _key("xkeysib-", r"[0-9a-f]{40,}[\w-]*+"),
    # Other keys with a recognisable prefix.
    _key("ntn_ lin_api_ figd_ figo_ figu_ tfp_ aio_", rf"{_DIGIT_AHEAD}[\w-]{{24,}}+"),
    _key("PMAK- NRAK- CFPAT-", r"[\w-]{24,}+"),
    _key("glsa_ glc_ sntrys_ sntryu_", r"[\w=+/-]{30,}+"),
    _key("pat", rf"[A-Za-z0-9]{{14}}\.{_HEX}{{40,}}+"),
    _key("sk.eyJ", r"[\w.-]{20,}+"),
    _key("EAA", r"[A-Za-z0-9]{60,}+"),
    _key("sl.", r"[\w-]{100,}+"),
    _key("ops_eyJ", r"[\w-]{40,}+"),
    _key("A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{5,6}-){4}[A-Z0-9]{5}\b"),
    # HTTP headers.
    Look(("earer ", "EARER "), r"(?i:earer) (?=[\w.~+/=-]{0,200}\d|[A-Za-z]{20})([\w.~+/=-]{16,}+)"),
    Look(
        ("asic ", "ASIC "),
        r"(?i:asic) (?=[A-Za-z0-9+/]{0,60}(?:[a-z][A-Z]|\d|=(?![A-Za-z0-9])))([A-Za-z0-9+/]{8,}+={0,2})",
    ),
    # Credentials within an address.
    Look(("://",), r"://([^\s/:@\"'<>]{0,100}+:[^\s/\"'<>]{1,300}|[\w.~-]{16,300}+)(?=@)"),
    Look(("jdbc:oracle:thin:",), r"jdbc:oracle:thin:([^\s/@]{1,60}/[^\s@]{1,200})(?=@)"),
)

MASKED: Final = "[masked]"

# No assignment is shorter than `密码=1`.
_SHORTEST = 4

_SHORTEST_LOOK = 13

_LONG = 2000

_MOST_PASSES = 5

_GLUED = re.compile(rf"(?<=\S){re.escape(MASKED)}|{re.escape(MASKED)}(?=\S)")

_LONG_RUN = re.compile(r"[\w.~+/=:-]{13,}+")

_BETWEEN = re.compile(r" |://")


def mask_text(text: str) -> str:
    """Return the text with a mark in place of each secret."""
    for _ in range(_MOST_PASSES):
        before, text = text, _mask_once(text)
        # A secret directly after another secret is recognised only after the first secret is masked.
        if text == before or not _GLUED.search(text):
            break
    return text


def _mask_once(text: str) -> str:
    if len(text) < _SHORTEST:
        return text
    text = mask_assignments(text, MASKED)
    if len(text) < _SHORTEST_LOOK and "://" not in text:
        return text
    runs = _runs(text)
    for look in LOOKS:
        for start in look.starts:
            if start in (text if _BETWEEN.search(start) else runs):
                text = _mask_look(text, start, look)
    return text


def _runs(text: str) -> str:
    """Return only the long words of a long text, because most kinds of keys are long words. Keep other texts whole."""
    return "\n".join(_LONG_RUN.findall(text)) if len(text) > _LONG else text


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    # Compile at the first use: most texts need no pattern.
    return re.compile(pattern)


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
