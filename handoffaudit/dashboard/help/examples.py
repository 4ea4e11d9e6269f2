"""An example of a code as its page shows it: both documents, line by line, with what differs marked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from handoffaudit.validation.explanations import Explanation, text_of


@dataclass(frozen=True, slots=True)
class Line:
    """`marked`: it is not the same in the other document. The `indent` before its text is never marked."""

    indent: str
    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One document, and what was sent along with it; `label` says which."""

    label: str
    document: list[Line]
    beside: list[Line]


def sides(explained: Explanation) -> tuple[Side, Side]:
    before, after = _compared(text_of(explained.before), text_of(explained.after))
    beside, beside_after = _compared(_shown(explained.beside), _shown(explained.beside_after))
    return Side("Before", before, beside), Side("After", after, beside_after)


def _shown(beside: Mapping[str, Any]) -> str:
    return json.dumps(beside, indent=2, ensure_ascii=False) if beside else ""


def _compared(one: str, other: str) -> tuple[list[Line], list[Line]]:
    old, new = one.splitlines(), other.splitlines()
    left: list[Line] = []
    right: list[Line] = []
    for kind, since, until, since_new, until_new in _matched(old, new).get_opcodes():
        left += [_line(line, marked=kind != "equal") for line in old[since:until]]
        right += [_line(line, marked=kind != "equal") for line in new[since_new:until_new]]
    return left, right


def _matched(old: list[str], new: list[str]) -> "SequenceMatcher[str]":
    """A comma at the end says only that something follows."""
    one, other = ([line.rstrip(",") for line in lines] for lines in (old, new))
    return SequenceMatcher(None, one, other, autojunk=False)


def _line(line: str, *, marked: bool) -> Line:
    text = line.lstrip()
    return Line(line[: len(line) - len(text)], text, marked)
