"""Secrets inside a text: what stands behind a word such as `password=`, and what has a known look.

All of it takes time linear in the text, whatever the text. Fixed texts are looked for first, which is fast; a pattern
is only held against the places where one stands, and each of its repeats either has a small bound or ends the pattern
and never gives back what it took.
"""

import re
from functools import cache
from typing import Final

from handoffaudit.validation.asking.secret_assignments import assignments_masked
from handoffaudit.validation.asking.secret_looks import LOOKS, Look

MASKED: Final = "[masked]"
# `pin=1` is as short as it gets
_SHORTEST = 5
_SHORTEST_LOOK = 13
_LONG = 2000
_MOST_PASSES = 5
_GLUED = re.compile(rf"(?<=\S){re.escape(MASKED)}|{re.escape(MASKED)}(?=\S)")
_RUN = re.compile(r"[\w.~+/=:-]{13,}+")
_BETWEEN = re.compile(r" |://")


def masked_text(text: str) -> str:
    """The text with a mark in place of each secret."""
    for _ in range(_MOST_PASSES):
        before, text = text, _masked_once(text)
        # a secret that stands right behind another shows where it begins only when that one is gone
        if text == before or not _GLUED.search(text):
            break
    return text


def _masked_once(text: str) -> str:
    if len(text) < _SHORTEST:
        return text
    text = assignments_masked(text, MASKED)
    if len(text) < _SHORTEST_LOOK and "://" not in text:
        return text
    runs = _runs(text)
    for look in LOOKS:
        for start in look.starts:
            if start in (text if _BETWEEN.search(start) else runs):
                text = _masked_look(text, start, look)
    return text


def _runs(text: str) -> str:
    """The long words of a long text: most looks are searched for in them alone."""
    return "\n".join(_RUN.findall(text)) if len(text) > _LONG else text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # when first needed: most texts need none
    return re.compile(pattern)


def _masked_look(text: str, start: str, look: Look) -> str:
    pattern = _compiled(look.pattern)
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
