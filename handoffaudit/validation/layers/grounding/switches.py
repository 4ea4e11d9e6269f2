"""Statements about what the data says yes or no to: `supports NFC` where `NFC` is `No`."""

import re
from collections.abc import Iterator, Sequence

from handoffaudit.validation.layers.grounding.records import Records
from handoffaudit.validation.layers.grounding.statements import Finding, Sentence

_NO = frozenset({"no", "false", "none", "absent"})
# said of keys in general, these tell nothing of which one is meant
_ANY_KEY = frozenset(
    {
        "slot",
        "port",
        "card",
        "jack",
        "status",
        "type",
        "available",
        "enabled",
        "supported",
        "technology",
        "name",
        "has",
        "is",
    }
)
_OTHER_NAMES = {"wlan": ("wlan", "wi-fi", "wifi"), "mm": ("3.5mm", "3.5 mm")}
_NEGATED = re.compile(r"\b(?:no|not|without|lacks?|lacking|neither|nor|absent|excluding|never|none)\b|n['\u2019]t\b")
_TURNED = re.compile(r"\b(?:but|however|while|although|though)\b")
_AFTER = 35


def switched_off(records: Records) -> list[str]:
    """The names, in lower case, of what the data says no to."""
    names: list[str] = []
    for fact in records.facts:
        if fact.value.strip().lower() in _NO:
            words = [word for word in fact.key if word not in _ANY_KEY and not word.isdigit()]
            if words:
                names += _OTHER_NAMES.get(words[-1], (words[-1],) if len(words[-1]) > 2 else ())
    return names


def switch_findings(sentences: Sequence[Sentence], names: Sequence[str]) -> Iterator[Finding]:
    """Whether what the data says no to is denied in the claim too."""
    for sentence in sentences if names else ():
        text = sentence.text.lower()
        for name in names:
            at = text.find(name)
            if at >= 0:
                start = sentence.start + at
                yield Finding("switch", start, start + len(name), _is_denied(text, at, at + len(name)))


def _is_denied(text: str, start: int, end: int) -> bool:
    for match in _NEGATED.finditer(text):
        if match.start() < start:
            if not _TURNED.search(text, match.end(), start):
                return True
        elif match.start() - end < _AFTER and match.group() in ("not", "absent"):
            return True
    return False
