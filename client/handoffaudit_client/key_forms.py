"""Forms of secret keys, the same as in the server: tests compare the two tables."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

_POSSESSIVE = re.compile(r"([*}])\+")


def compile_pattern(
    pattern: str, flags: int = 0, *, version: tuple[int, ...] = sys.version_info[:2]
) -> re.Pattern[str]:
    """Return the compiled pattern. Before Python 3.11, greedy quantifiers replace the possessive ones.

    Greedy quantifiers find the same secrets; only a hostile text takes longer.
    """
    return re.compile(pattern if version >= (3, 11) else _POSSESSIVE.sub(r"\1", pattern), flags)


class Look(NamedTuple):
    """The form of a kind of key.

    `starts` are fixed texts in or just before the key; `pattern` is matched at the position of such a text, or `back`
    characters before it. If the pattern has a group, the group is the secret.
    """

    starts: tuple[str, ...]
    pattern: str
    back: int = 0


def _key(starts: str, rest: str) -> Look:
    """Return the form of a word that begins with one of the words in `starts` and continues as `rest`."""
    words = tuple(starts.split())
    return Look(words, rf"\b(?:{'|'.join(word.replace('.', '[.]') for word in words)}){rest}")


# Require a digit nearby, because a match without digits is usually a chain of hyphenated words.
_DIGIT_AHEAD = r"(?=[\w-]{0,60}\d)"

_HEX = r"[0-9a-fA-F]"

LOOKS = (
    # Private keys: the whole key, or the available part of a truncated key.
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
