"""The marks of a claim: each concrete value of the claim is looked up in the sources."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from handoffaudit.validation.claims import Kind, Mark
from handoffaudit.validation.layers.grounding.calculations import Calculation, calculations_in
from handoffaudit.validation.layers.grounding.data import data_marks
from handoffaudit.validation.layers.grounding.forms import Form
from handoffaudit.validation.layers.grounding.lookup import Found, Lookup
from handoffaudit.validation.layers.grounding.mentions import is_json
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.values import (
    MAX_VALUES,
    TextValue,
    ValueKind,
    blank_escapes,
    values_in,
)
from handoffaudit.validation.layers.grounding.vocabulary import is_foreign
from handoffaudit.validation.layers.grounding.wording_judge import judge_wording
from handoffaudit.validation.layers.grounding.wording_text import speaks
from handoffaudit.validation.text import PlainText

_KINDS: dict[ValueKind, Kind] = {
    "number": "number",
    "date": "date",
    "time": "date",
    "name": "name",
    "quote": "quote",
    "identifier": "identifier",
}

# A text with fewer words is a value, not a statement about the data.
_FEWEST_WORDS = 5

_WORDS_PER_SPEAKER = 40

_MOST_READ = 20_000

_FEWEST_VALUES = 3

# A longer text is a separate document, not a statement.
_MOST_JUDGED = 10_000

_LISTED = re.compile(r"\*\*|\n[ \t]*(?:[-*\u2022]|\d+[.)])[ \t]")

_DECADE = re.compile(r"(?:1\d|20)\d0s")

_FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")

# The forms of text whose values assert something.
_ASSERTED = frozenset({Form.STATEMENT, Form.DATA})

# In a text that restates its sources, a cautious or commanding sentence must be right, too.
_RESTATED = frozenset({*_ASSERTED, Form.GUESS, Form.PLAN})


def ground(
    text: str,
    index: SourceIndex,
    most: int = MAX_VALUES,
    *,
    statements: bool = True,
    restates: bool = True,
    is_own: bool = False,
) -> list[Mark]:
    """Return the marks of the text of one claim, in order.

    Each value has a mark with its sources. Each wrong calculation, and wording that departs from the sources, also has
    a mark. At most `most` values are looked up. Without `statements`, statements about structured data are not judged.
    Without `restates`, the text need not restate its sources: then statements about structured data are not judged,
    either, and only the wording of summaries is judged. `is_own` is true if the text is known to be the agent's own,
    even if the text is JSON.
    """
    plain = PlainText.of(text)
    marks = _ground(plain.text, index, most, statements=statements and restates, whole=restates, is_own=is_own)
    return [_replace_span(mark, plain.span(mark.start, mark.end)) for mark in marks] if plain.replaced else marks


def _replace_span(mark: Mark, span: tuple[int, int]) -> Mark:
    return msgspec.structs.replace(mark, start=span[0], end=span[1])


def _ground(text: str, index: SourceIndex, most: int, *, statements: bool, whole: bool, is_own: bool) -> list[Mark]:
    is_data = is_json(text)
    text = blank_escapes(text, is_data=is_data)
    values = values_in(text, quotes=not is_data, most=most)
    lookup = Lookup(text, index)
    found = _find_values(lookup, values)
    if is_data:
        marks = [_mark(lookup, value, one) for value, one in found]
        return marks if is_own else _report_foreign_marks(marks)
    restates = False
    wording: list[Mark] = []
    judge = index.judge
    if judge is None:
        restates, wording = judge_wording(text, index, whole=whole)
    elif statements and len(text) <= _MOST_JUDGED and _is_descriptive(text):
        restates = True
    if restates and is_foreign(text):
        # Both judges know only English words.
        restates, wording = False, []
    marks = [_mark(lookup, value, one, restates=restates) for value, one in found]
    if judge is not None and restates:
        wording = data_marks(text, judge, values, marks)
    marks = _with_calculations(lookup, marks)
    return sorted([*marks, *(wording if judge is not None else _apart(wording, marks))], key=_place)


def _find_values(lookup: Lookup, values: Sequence[TextValue]) -> list[tuple[TextValue, Found]]:
    mentions = lookup.index.names.mentions(lookup.text, values)
    found: list[tuple[TextValue, Found]] = []
    for value in values:
        if value.kind == "number" and _is_list_marker(lookup.text, value):
            continue
        if value.kind == "name" and _is_label(lookup.text, value):
            continue
        where = mentions.get(value) if mentions else None
        one = Found("grounded", where) if where else lookup.find(value)
        if one is not None and not (one.status == "ungrounded" and _is_syntax(lookup, value)):
            found.append((value, one))
    return found


def _is_syntax(lookup: Lookup, value: TextValue) -> bool:
    """Return whether the value is only syntax: a string or a key of JSON, or a string or a name in code."""
    if value.kind not in ("quote", "identifier", "name"):
        return False
    form = lookup.forms.of(value.start, value.end)
    if form is Form.DATA:
        return value.kind == "quote" or lookup.text[value.end : value.end + 20].lstrip("\"' ").startswith(":")
    return form is Form.CODE and value.kind in ("quote", "name")


def _asserts(lookup: Lookup, value: TextValue, *, restates: bool) -> bool:
    """Return whether the text asserts the value as a fact, so that the value needs a source."""
    if value.kind == "number" and _DECADE.fullmatch(value.text):
        return False
    form = lookup.forms.of(value.start, value.end)
    return form in (_RESTATED if restates else _ASSERTED)


def _mark(lookup: Lookup, value: TextValue, found: Found, *, restates: bool = False) -> Mark:
    start, end = found.part or (value.start, value.end)
    text = lookup.text[start:end]
    where = (found.where,) if found.where else ()
    if found.status != "ungrounded":
        return Mark(_KINDS[value.kind], start, end, text, found.status, where)
    counts = _asserts(lookup, value, restates=restates)
    closest = lookup.closest(value, text) if counts else ""
    if not restates and (value.kind == "name" or "://" in text):
        # An agent may know a name or an address from its work. So the value counts only if it resembles a value in the
        # sources: then it may be a changed copy.
        counts = counts and bool(closest)
    return Mark(_KINDS[value.kind], start, end, text, found.status, where, closest, counts)


def _with_calculations(lookup: Lookup, marks: list[Mark]) -> list[Mark]:
    """Return the marks with the results of calculations: a right result is derived, and a wrong result is ungrounded.

    A right result is derived only if its operands are known, so that `4711 * 1 = 4711` is not a source of 4711.
    """
    text = lookup.text
    calculations = calculations_in(text)
    if not calculations:
        return marks
    wrong: dict[int, Mark] = {}
    known = {mark.start for mark in marks if mark.status != "ungrounded"}
    right: dict[str, Calculation] = {}
    for one in calculations:
        if not one.holds:
            if lookup.forms.of(one.start, one.end) not in (Form.CODE, Form.LOG):
                wrong[one.start] = _wrong(text, one)
        elif all(at in known or _figure_at(text, at) in right for at in one.operands):
            # The text may repeat the result in other places. The repeated number is derived, too.
            right[text[one.start : one.end].rstrip("% ")] = one
    kept = [_mark_derived(mark, right) for mark in marks if mark.start not in wrong]
    return [*kept, *wrong.values()]


def _figure_at(text: str, at: int) -> str:
    match = _FIGURE.match(text, at)
    return match.group() if match else ""


def _mark_derived(mark: Mark, right: Mapping[str, Calculation]) -> Mark:
    if mark.status != "ungrounded" or mark.kind != "number":
        return mark
    calculation = right.get(mark.text.rstrip("% "))
    if calculation is None:
        return mark
    return msgspec.structs.replace(mark, status="derived", where=(calculation.expression,), closest="", counts=True)


def _wrong(text: str, one: Calculation) -> Mark:
    stated = text[one.start : one.end]
    return Mark("calculation", one.start, one.end, stated, "ungrounded", (one.expression,), f"{one.result:,.12g}")


def _report_foreign_marks(marks: list[Mark]) -> list[Mark]:
    """Return the marks of a text that is JSON. If most values are in no source, change ungrounded marks to reported.

    A text with most values in no source is the result of a tool or a separate record. Such a text does not restate the
    sources, so its values are not wrong: only their origin is unknown. Marks of fewer than three values do not change.
    """
    missing = sum(mark.status == "ungrounded" for mark in marks)
    if 2 * missing <= len(marks) or len(marks) < _FEWEST_VALUES:
        return marks
    return [
        msgspec.structs.replace(mark, status="reported", closest="") if mark.status == "ungrounded" else mark
        for mark in marks
    ]


def _apart(wording: list[Mark], marks: list[Mark]) -> list[Mark]:
    """Return the wording marks that add something to the marks of values.

    A mark inside an ungrounded value is left out, because the value needs no second mark. A mark on a part of another
    value is left out, too, because a part such as `03` of 2024-03-12 has no meaning of its own. The words of a name
    have a meaning of their own, so their marks stay. A mark on the whole of a grounded value also stays.
    """
    return [mark for mark in wording if not any(_is_part(mark, value) for value in marks)]


def _is_part(mark: Mark, value: Mark) -> bool:
    if not value.start <= mark.start <= mark.end <= value.end:
        return False
    return value.status == "ungrounded" or (value.kind != "name" and len(mark.text) < len(value.text))


def _is_descriptive(text: str) -> bool:
    """Return whether a text may describe data. A bare value, a list, a conversation or a question does not."""
    words = text[:_MOST_READ].lower().split()
    if _LISTED.search(text, 0, _MOST_READ):
        return False
    return len(words) >= _FEWEST_WORDS and "?" not in text and speaks(words) <= len(words) // _WORDS_PER_SPEAKER


def _place(mark: Mark) -> tuple[int, int]:
    return (mark.start, mark.end)


def _is_list_marker(text: str, value: TextValue) -> bool:
    """Return whether the number is a list marker, such as `1.` or `2)` at the start of a line."""
    if text[value.end : value.end + 1] not in (".", ")"):
        return False
    line = text[max(0, value.start - 8) : value.start].rpartition("\n")[2]
    return not line.strip(" #*-(") and (value.start < 8 or "\n" in text[max(0, value.start - 8) : value.start])


def _is_label(text: str, value: TextValue) -> bool:
    """Return whether the name is a heading, a key before a colon, or bold text.

    Such text is capitalized whatever its meaning.
    """
    after = text[value.end : value.end + 3].lstrip("*_ ")
    if after[:1] == ":":
        return True
    start = value.start
    first = max(0, start - 100)
    if text.find("#", first, start) >= 0 and text[first:start].rpartition("\n")[2].lstrip().startswith("#"):
        return True
    return text.startswith("**", value.end) and text.endswith("**", 0, start)
