"""Structured data read as facts: each value with the words of its key and its record (row, list item)."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from handoffaudit.validation.claims import Source, spell_out

MAX_FACTS = 5_000
MAX_LEAVES = 20_000
_MAX_LITERAL = 65_536
_MAX_DEPTH = 40
_FEW_LINES = 3
_LONGEST_PATH = 500
_LONGEST_NAME = 500
_FIRST = itemgetter(0)
_LONGEST_LINE = 300
_BRACKETS = ("{", "[")
_INDEX = re.compile(r"\[\d+\]")
_KEY_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_KEYED_LINE = re.compile(r"\s*[-*#]?\s*([^:\n]{1,60}): (.{1,2000})")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")


class Fact(NamedTuple):
    """A value of structured data with the words of its key.

    `key` holds the lower-case words of the last name on the path of the value, and `group` the words of the name before
    that. `record` is the number of the row or list item that holds the value, counted from 1 across all lists. It is 0
    for a value outside of rows and lists. For JSON and Python literals, only the items of lists that begin with an
    object and have several items are numbered.
    """

    key: tuple[str, ...]
    value: str
    record: int
    group: tuple[str, ...] = ()

    @property
    def number(self) -> float | None:
        return float(self.value) if len(self.value) < 30 and _NUMBER.match(self.value) else None


@dataclass
class Records:
    facts: list[Fact] = field(default_factory=list)

    @cached_property
    def columns(self) -> dict[tuple[str, ...], list[float]]:
        """Return the numbers under each key, in order."""
        columns: dict[tuple[str, ...], list[float]] = {}
        for fact in self.facts:
            number = fact.number
            if number is not None:
                columns.setdefault(fact.key, []).append(number)
        return columns

    @cached_property
    def totals(self) -> list[float]:
        """Return the sum and the mean of the numbers under each key that has several, in ascending order."""
        sums = [(sum(numbers), len(numbers)) for numbers in self.columns.values() if len(numbers) > 1]
        return sorted([*(total for total, _ in sums), *(total / count for total, count in sums)])

    @cached_property
    def by_record(self) -> dict[int, list[Fact]]:
        grouped: dict[int, list[Fact]] = {}
        for fact in self.facts:
            grouped.setdefault(fact.record, []).append(fact)
        return grouped


def records_of(text: str) -> Records | None:
    """Return the facts of JSON, a Python literal, CSV with a header or `key: value` lines; else None."""
    if is_literal(text):
        value = _parse_literal(text)
        try:
            return None if value is None else Records(list(islice(_facts_of(value), MAX_FACTS)))
        except ValueError:
            # Python converts no integer of more than 4,300 digits to text. A hexadecimal literal can be so large.
            return None
    # A text whose lines are longer than this limit on average is prose.
    if len(text) > _LONGEST_LINE * (text.count("\n") + 1):
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    return _table(lines) or (_keyed_lines(lines) if ": " in text else None)


def is_literal(text: str) -> bool:
    """Return whether a text begins like a JSON or Python literal."""
    return text.lstrip()[:1] in _BRACKETS


def records_of_leaves(leaves: Iterable[tuple[str, str]]) -> Records:
    """Return the facts of the first 5,000 values, each given with its path (`order.items[2].price`).

    A name and a value of the same object (`specs[3].name` and `specs[3].value`) are one fact. Its key holds the words
    of the text at `specs[3].name`, and its value is the value at `specs[3].value`.
    """
    facts: list[Fact] = []
    rows: dict[str, int] = {}
    pairs: dict[str, int] = {}
    for full, value in islice(leaves, MAX_FACTS):
        path = full[:_LONGEST_PATH]
        row, bracket, _ = path.rpartition("]")
        owner, _, last = path.rpartition(".")
        names = _INDEX.sub("", path).split(".")
        group = key_words(names[-2]) if len(names) > 1 else ()
        fact = Fact(key_words(names[-1]), value, rows.setdefault(row, len(rows) + 1) if bracket else 0, group)
        if last == "value" and owner in pairs:
            at = pairs.pop(owner)
            facts[at] = fact._replace(key=key_words(facts[at].value))
            continue
        if last == "name" and value.strip():
            pairs[owner] = len(facts)
        facts.append(fact)
    return Records(facts)


def _parse_literal(text: str) -> object | None:
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        pass
    if len(text) > _MAX_LITERAL:
        return None
    try:
        return ast.literal_eval(text.strip())  # type: ignore[no-any-return]
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _facts_of(value: object) -> Iterator[Fact]:
    """Yield the leaves in order, without nulls and values that are nested deeper than 40 levels.

    A name and a value of the same object are one fact, as in `records_of_leaves`.
    """
    records = 0
    waiting: list[tuple[object, str, str, int, int]] = [(value, "", "", 0, 0)]
    while waiting:
        item, key, group, record, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            continue
        if isinstance(item, dict):
            fields, named = list(item.items()), item.get("name")
            if isinstance(named, str) and named.strip() and item.get("value") is not None:
                fields = [(named if name == "value" else name, inner) for name, inner in fields if name != "name"]
            waiting += [(inner, str(name), key, record, depth + 1) for name, inner in reversed(fields)]
        elif isinstance(item, list | tuple):
            several = len(item) > 1 and isinstance(item[0], dict)
            for at, inner in reversed(list(enumerate(item, start=1))):
                waiting.append((inner, key, group, records + at if several else record, depth + 1))
            records += len(item) if several else 0
        elif item is not None:
            yield Fact(key_words(key), str(item), record, key_words(group))


@lru_cache(maxsize=4096)
def _words_of_key(key: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _KEY_WORDS.findall(key))


def key_words(key: str) -> tuple[str, ...]:
    """Return the words of a key: `start` and `datetime` for `startDatetime`, `period` and `1` for `period1`."""
    return _words_of_key(key[:80])


def _table(lines: list[str]) -> Records | None:
    if len(lines) < _FEW_LINES:
        return None
    commas = Counter(line.count(",") for line in lines if not line.startswith("#"))
    if not commas:
        return None
    width, often = commas.most_common(1)[0]
    if not width or often < _FEW_LINES or often < 0.8 * sum(commas.values()):
        return None
    rows = [line for line in lines if line.count(",") == width and not line.startswith("#")]
    if " " in rows[0]:
        return None
    header = [key_words(name) for name in rows[0].split(",")]
    facts = [
        Fact(key_words(match[1]), match[2], 0)
        for line in lines
        if line[0] == "#" and (match := _KEYED_LINE.match(line))
    ]
    for number, row in enumerate(rows[1:MAX_FACTS], start=1):
        facts += [Fact(key, value.strip(), number) for key, value in zip(header, row.split(","), strict=True)]
    return Records(facts[:MAX_FACTS])


def _keyed_lines(lines: list[str]) -> Records | None:
    """Return the facts of `key: value` lines, or None if the text has too few of these lines.

    Apart from two lines, such as a title, at least two thirds of the lines must have this form.
    """
    lines = lines[:MAX_FACTS]
    if sum(": " in line for line in lines) * 3 < (len(lines) - 2) * 2:
        return None
    matches = [match for line in lines if (match := _KEYED_LINE.match(line)) and _is_entry(line)]
    enough = 1 if matches and matches[0][0].lstrip()[0] in "-*" else _FEW_LINES
    if len(matches) < enough or len(matches) * 3 < (len(lines) - 2) * 2:
        return None
    return Records([Fact(key_words(match[1]), match[2], 0) for match in matches])


def _is_entry(line: str) -> bool:
    """Return whether a line is an entry of a list or does not end like a sentence.

    A line of dialogue (`Ann: I'm not sure.`) ends like a sentence.
    """
    return line.lstrip()[0] in "-*" or line.rstrip()[-1] not in ".?!"


def leaves(value: object, path: str) -> list[Source]:
    """Return the texts, numbers and booleans of a JSON value as sources named by their paths, at most 20,000."""
    if isinstance(value, str):
        return [Source(path[:_LONGEST_NAME], value)]
    found: list[Source] = []
    # This stack replaces recursion, because a document may be nested deeper than Python allows calls.
    waiting: list[tuple[str, object]] = [(path, value)]
    start = len(path)
    while waiting and len(found) < MAX_LEAVES:
        name, item = waiting.pop()
        name = name[:_LONGEST_NAME]
        if isinstance(item, str):
            found.append(Source(name, item, name[start:]))
        elif isinstance(item, dict):
            # The keys are sorted, so that the result does not depend on the key order of the document.
            fields = sorted(zip(map(str, item), item.values(), strict=True), key=_FIRST, reverse=True)
            before = f"{name}." if name else ""
            while fields and isinstance(text := fields[-1][1], str):
                inner = (before + fields.pop()[0])[:_LONGEST_NAME]
                found.append(Source(inner, text, inner[start:]))
            waiting += [(before + key, value) for key, value in fields]
        elif isinstance(item, list | tuple):
            waiting += [(f"{name}[{at}]", inner) for at, inner in reversed(list(enumerate(item)))]
        elif isinstance(item, float) or (isinstance(item, int) and item.bit_length() < 190):
            written = str(item).lower() if isinstance(item, bool) else str(item)
            if isinstance(item, float) and "e" in written:
                # Texts usually repeat such a number without the exponent.
                found.append(Source(name, spell_out(item), name[start:]))
            found.append(Source(name, written, name[start:]))
    return found[:MAX_LEAVES]
