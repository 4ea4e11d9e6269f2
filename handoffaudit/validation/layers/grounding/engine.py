"""Looks up every concrete value of a claim in the sources."""

import re
from collections.abc import Sequence

from handoffaudit.validation.layers.grounding.data_wording import data_marks
from handoffaudit.validation.layers.grounding.lookup import Found, Lookup
from handoffaudit.validation.layers.grounding.marks import Kind, Mark
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.values import MAX_VALUES, Value, ValueKind, values_in
from handoffaudit.validation.layers.grounding.wording import wording_marks
from handoffaudit.validation.layers.grounding.wording_text import speaks

_KINDS: dict[ValueKind, Kind] = {
    "number": "number",
    "date": "date",
    "time": "date",
    "name": "name",
    "quote": "quote",
    "identifier": "identifier",
}
_BRACKETS = frozenset("{[")
# a text of fewer words is a value, and no statement about the data
_FEWEST_WORDS = 5
_WORDS_PER_SPEAKER = 40
_MOST_READ = 20_000
_FEWEST_VALUES = 3
# a longer text is a document of its own
_MOST_JUDGED = 10_000
_LISTED = re.compile(r"\*\*|\n[ \t]*(?:[-*\u2022]|\d+[.)])[ \t]")


def ground(text: str, index: SourceIndex, most: int = MAX_VALUES, *, statements: bool = True) -> list[Mark]:
    """The marks of one claim's text, in order: every value that something can be said of, with what it rests on, and
    the wording that departs from the sources. At most so many values are looked up; without `statements` what the text
    says about structured data is not judged."""
    is_json = text.lstrip()[:1] in _BRACKETS
    values = values_in(text, quotes=not is_json, most=most)
    marks = _value_marks(text, index, values)
    if is_json:
        return _restated(marks)
    judge = index.judge
    if judge is None:
        marks += _apart(wording_marks(text, index), marks)
    elif statements and len(text) <= _MOST_JUDGED and _tells(text):
        marks += data_marks(text, judge, values, marks)
    return sorted(marks, key=_place)


def _restated(marks: list[Mark]) -> list[Mark]:
    """The marks of a text that is itself JSON: where most of its values stand nowhere, it is the answer of a tool or
    another record of its own, which restates nothing and is not told to be unfounded."""
    grounded = [mark for mark in marks if mark.status != "ungrounded"]
    return grounded if len(marks) > 2 * len(grounded) and len(marks) >= _FEWEST_VALUES else marks


def _apart(wording: list[Mark], marks: list[Mark]) -> list[Mark]:
    """The wording that is no value, nor part of one: an ungrounded value is marked once, and `03` says nothing of
    2024-03-12 or `80` of 80 %, where the sources have them."""
    return [mark for mark in wording if not any(_is_part(mark, value) for value in marks)]


def _is_part(mark: Mark, value: Mark) -> bool:
    if not value.start <= mark.start <= mark.end <= value.end:
        return False
    return value.status == "ungrounded" or (value.kind != "name" and len(mark.text) < len(value.text))


def _tells(text: str) -> bool:
    """Whether a text may be one about data: no bare value, no list, no talk to somebody, no question."""
    words = text[:_MOST_READ].lower().split()
    if _LISTED.search(text, 0, _MOST_READ):
        return False
    return len(words) >= _FEWEST_WORDS and "?" not in text and speaks(words) <= len(words) // _WORDS_PER_SPEAKER


def _place(mark: Mark) -> tuple[int, int]:
    return (mark.start, mark.end)


def _value_marks(text: str, index: SourceIndex, values: Sequence[Value]) -> list[Mark]:
    lookup = Lookup(text, index)
    mentions = index.names.mentions(text, values)
    marks: list[Mark] = []
    for value in values:
        if value.kind == "number" and _is_list_marker(text, value):
            continue
        if value.kind == "name" and _is_label(text, value):
            continue
        found = Found("grounded", mentions[value]) if value in mentions else lookup.find(value)
        if found is None:
            continue
        start, end = found.part or (value.start, value.end)
        where = (found.where,) if found.where else ()
        marks.append(Mark(_KINDS[value.kind], start, end, text[start:end], found.status, where, found.closest))
    return marks


def _is_list_marker(text: str, value: Value) -> bool:
    """`1.` and `2)` at the start of a line."""
    if text[value.end : value.end + 1] not in (".", ")"):
        return False
    line = text[max(0, value.start - 8) : value.start].rpartition("\n")[2]
    return not line.strip(" #*-(") and (value.start < 8 or "\n" in text[max(0, value.start - 8) : value.start])


def _is_label(text: str, value: Value) -> bool:
    """A heading, a key before a colon, or words in bold: written with capitals whatever they mean."""
    after = text[value.end : value.end + 3].lstrip("*_ ")
    if after[:1] == ":":
        return True
    before = text[max(0, value.start - 100) : value.start]
    return ("#" in before and before.rpartition("\n")[2].lstrip().startswith("#")) or (
        text[max(0, value.start - 2) : value.start] == "**" and text[value.end : value.end + 2] == "**"
    )
