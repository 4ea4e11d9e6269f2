"""Hostile documents, each of about the requested number of bytes, and judging with every layer on."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.validation.config import EvidencePolicy, GroundingPolicy, Requirements
from handoffaudit.validation.verdict import Verdict

from ..support import judge, payload

MIB = 1024 * 1024
STRICTEST: dict[str, Any] = {"evidence": EvidencePolicy.REQUIRED, "grounding": GroundingPolicy.REJECT}


@dataclass(frozen=True)
class Submission:
    """A document with its context, evidence and rules."""

    document: dict[str, Any]
    context: Any = None
    evidence: Any = None
    demands: Requirements = field(default_factory=Requirements)
    form: str | None = None


def strictest(sent: Submission, **given: Any) -> Verdict:
    """Return the verdict with every layer on."""
    envelope = {"context": sent.context, "evidence": sent.evidence}
    given = {"demands": sent.demands, "policy": STRICTEST, **given}
    return judge(copy.deepcopy(sent.document), sent.form, envelope=envelope, **given)


def filled(piece: str, size: int) -> str:
    return piece * (size // len(piece))


# What the patterns of the layers could stumble over: runs that nearly match, and never end.
PIECES = {
    "digits": "1",
    "digits and dots": "1.",
    "digits and commas": "1,",
    "numbers": "7.1 ",
    "different numbers": "",
    "dots": ".",
    "quotes": '"',
    "quoted words": '"a b c d" ',
    "curly quotes": "\u201ca",
    "apostrophes": "'",
    "capital letters": "A",
    "capital words": "Ab ",
    "capital words with joints": "Ab-Cd of the ",
    "at signs": "@",
    "addresses": "x@y.z ",
    "endless address": "a.",
    "address without an end": "a@a.",
    "URLs": "http://a.b/c?d ",
    "endless URL": "http://",
    "slashes": "/",
    "dates": "2024-02-30 ",
    "hyphens": "1-",
    "times": "12:61 ",
    "colons": "1:",
    "percent": "1 % ",
    "currency": "$ ",
    "months": "May ",
    "number words": "one hundred and ",
    "negations": "not ",
    "sentences": "No. ",
    "lines": "a\n",
    "spaces": " ",
    "tabs": "\t",
    "hashes": "#a",
    "underscores": "_",
    "opened brackets": "[",
    "opened braces": "{",
    "yaml": "- a: 1\n",
    "csv": "a,b\n",
    "markdown table": "| a | b |\n",
    "escapes": "\\u00a0",
    "initials": "A. B. ",
    "mixed": '"Ab 1,2.3 @x http:// 12 May',
    "combining marks": "e\u0301",
    "right to left": "\u202e\u05d0",
    "wide characters": "\U0001f600",
    "dotted capital I": "\u0130",
    "sharp s": "\u00df",
    "Arabic digits": "\u0661",
    "superscripts": "\u00b2",
    "surrogates": "\ud800",
    "NUL": "\0",
    "assumptions": "assumption ",
    "different words": "",
    "different names": "",
}


def text_of(name: str, size: int) -> str:
    match name:
        case "different numbers":
            return " ".join(str(number * 7919 % 10_000_019) for number in range(size // 8))
        case "different words":
            return " ".join(_word(number) for number in range(size // 7))
        case "different names":
            return " ".join(_word(number).title() for number in range(size // 7))
        case _:
            return filled(PIECES[name], size)


def _word(number: int) -> str:
    letters = ""
    for _ in range(6):
        number, left = divmod(number * 31 + 7, 26)
        letters += chr(97 + left)
    return letters


def _in_data(name: str, size: int) -> Submission:
    return Submission(payload(data={"text": text_of(name, size)}), context={"text": "Three of 5 suppliers answered."})


def _in_context(name: str, size: int) -> Submission:
    claim = 'On 12 May 2024 Anna Berg paid 1,234.50 EUR, "not a word of it", see x@y.zz and http://a.bb/c; not 17 %.'
    return Submission(payload(data={"text": claim}), context={"text": text_of(name, size)})


def _in_both(name: str, size: int) -> Submission:
    half = text_of(name, size // 2)
    return Submission(payload(data={"text": half}), context={"text": half[::-1]})


def _in_many(name: str, size: int) -> Submission:
    """Return many claims against many sources."""
    pieces = [text_of(name, size // 2 // 500)] * 500
    data = {f"k{number}": piece for number, piece in enumerate(pieces)}
    return Submission(payload(data=data), context={"texts": [piece[::-1] for piece in pieces]})


WAYS: dict[str, Callable[[str, int], Submission]] = {
    "data": _in_data,
    "context": _in_context,
    "both": _in_both,
    "many": _in_many,
}
