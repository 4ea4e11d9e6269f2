"""Policy files and files of cases: reading YAML with limits and the line of every value, and writing YAML.

The events of the parser are read one by one. Aliases, too deep nesting and too many values are therefore refused before
anything is built from them, and no tag of YAML creates an object.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

MOST_BYTES: Final = 4 * 1024 * 1024
# The cases of a tenant have at most 8 MiB of JSON, and the quoting of YAML can make them longer.
MOST_BYTES_OF_CASES: Final = 24 * 1024 * 1024
DEEPEST: Final = 64
MOST_VALUES: Final = 200_000
FORMAT: Final = 1
HEAD: Final = "# Policies of handoffaudit. A kind that is named here is replaced as a whole.\n"
CASES_HEAD: Final = "# Cases of handoffaudit: handoffs with the verdict that they should have.\n"

# YAML 1.2 (core schema, without octal and hexadecimal numbers, infinity and NaN): `on`, `yes` and dates are texts,
# unlike in YAML 1.1.
_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE: Final = re.compile(r"[-+]?[0-9]+")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# The longest decimal of 64 bits, with a sign.
_LONGEST_NUMBER: Final = 20
# JSON of the server has whole numbers of 64 bits, with or without a sign.
_LEAST, _MOST = -(2**63), 2**64 - 1
_TEXT_TAGS: Final = (None, "!", "tag:yaml.org,2002:str")
_PART: Final = re.compile(r"[^.\[\]]+")
_NUMBERED: Final = re.compile(r"set (\d+)")

Place = tuple[str | int, ...]

# The field with the name of a row, by kind of policy.
NAMES: Final = {
    "strictness": "handoff_type",
    "rules": "set_id",
    "schemas": "handoff_type",
    "agents": "source",
    "roles": "agent",
    "thresholds": "name",
    "retention": "name",
}


class BadFile(Exception):
    """A file that cannot be read as a policy file or a file of cases. `line` is 0 if the whole file is meant."""

    def __init__(self, line: int, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.line = line
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """The policies of a file by kind, and the line of each value."""

    policies: dict[str, Any]
    lines: dict[Place, int] = field(repr=False)

    def find_line(self, kind: str, row: str, path: str) -> int:
        """Return the line of a field, else of its row, else of its kind, else of `policies`."""
        rows = self.policies.get(kind)
        place: Place = ("policies", kind)
        number = _find_row(kind, rows, row) if isinstance(rows, list) and row else None
        if number is not None:
            place = (*place, number)
            for part in _PART.findall(path):
                deeper = (*place, int(part) if part.isdecimal() and (*place, part) not in self.lines else part)
                if deeper not in self.lines:
                    break
                place = deeper
        return self.lines.get(place, self.lines.get(("policies",), 1))


def _find_row(kind: str, rows: Sequence[Any], name: str) -> int | None:
    """Return the index of the last row with that name, or None. `set 3` is the third row."""
    if kind == "handoff_files":
        return 0 if rows else None
    if numbered := _NUMBERED.fullmatch(name):
        return int(numbered[1]) - 1
    for number in reversed(range(len(rows))):
        row = rows[number]
        if not isinstance(row, Mapping):
            continue
        found = _name_prompt(row) if kind == "prompts" else row.get(NAMES.get(kind, ""))
        if (found[:200] if isinstance(found, str) else "?") == name[:200]:
            return number
    return None


def _name_prompt(row: Mapping[str, Any]) -> str:
    scopes = [
        f"{word}:{row[key]}" for word, key in (("type", "handoff_type"), ("workflow", "workflow")) if row.get(key)
    ]
    return f"{row.get('use') or '?'} {' '.join(scopes) or 'all'}"


def read_file(content: bytes) -> PolicyFile:
    """Return the policies of a file. Raise `BadFile` with the line of the first fault."""
    document, lines = _read_document(content, MOST_BYTES)
    return PolicyFile(_check_frame(document, lines, "policies", dict), lines)


def read_cases(content: bytes) -> tuple[list[Any], list[int]]:
    """Return the cases of a file of cases, and the line of each. Raise `BadFile` with the line of the first fault."""
    document, lines = _read_document(content, MOST_BYTES_OF_CASES)
    cases: list[Any] = _check_frame(document, lines, "cases", list)
    return cases, [lines[("cases", number)] for number in range(len(cases))]


def _read_document(content: bytes, most: int) -> tuple[Any, dict[Place, int]]:
    if len(content) > most:
        raise BadFile(0, f"The file has more than {most:,} bytes.", "Split it into several files.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadFile(line, "The file is not UTF-8.", "Save it as UTF-8.") from error
    lines: dict[Place, int] = {}
    try:
        document = _Builder(lines).build(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(f"This is not YAML: {error.problem or error.context}.".split())
        raise BadFile(mark.line + 1 if mark else 0, said, "Correct the line or the one above it.") from error
    except yaml.YAMLError as error:
        said = " ".join(f"This is not YAML: {error}.".split())[:300]
        raise BadFile(0, said, "Remove control characters and write plain YAML.") from error
    return document, lines


def _check_frame(document: Any, lines: Mapping[Place, int], name: str, kind: type) -> Any:
    """Return the value of the field with this name. A document has this field, `format: 1` and nothing else."""
    remedy = f"Write format: {FORMAT} and {name}:, as handoffaudit policy export does."
    if not isinstance(document, dict):
        raise BadFile(1, f"The file is not an object with {name}.", remedy)
    if unknown := next((one for one in document if one not in ("format", name)), None):
        raise BadFile(lines[(unknown,)], f"There is no such field: {unknown[:80]!r}.", remedy)
    if document.get("format") != FORMAT or isinstance(document["format"], bool):
        line = lines.get(("format",), 1)
        raise BadFile(line, f"The format is {str(document.get('format'))[:80]!r}, not {FORMAT}.", remedy)
    content = document.get(name)
    if not isinstance(content, kind):
        holds = "kinds of policies" if name == "policies" else "list of cases"
        raise BadFile(lines.get((name,), 1), f"{name} has no {holds}.", remedy)
    return content


@dataclass(slots=True)
class _Open:
    """A list or object that is being read, and the key that waits for its value."""

    value: Any
    place: Place
    key: str | None = None


class _Builder:
    """Build the values of one document from parser events, and record their lines."""

    def __init__(self, lines: dict[Place, int]) -> None:
        self._lines = lines
        self._open: list[_Open] = []
        self._values = 0
        self._documents = 0
        self._root: Any = None

    def build(self, events: Iterator[Event]) -> Any:
        for event in events:
            self._add(event, getattr(event.start_mark, "line", 0) + 1)
        return self._root

    def _add(self, event: Event, line: int) -> None:
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise BadFile(line, "The file has a second document.", "Remove the line --- and what follows it.")
        elif isinstance(event, AliasEvent):
            raise BadFile(line, f"*{str(event.anchor)[:80]} refers to another value.", "Write the value out.")
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            _refuse_tag(event, line, ())
            self._begin({} if isinstance(event, MappingStartEvent) else [], line)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._open.pop()
        elif isinstance(event, ScalarEvent):
            self._add_scalar(event, line)

    def _add_scalar(self, event: ScalarEvent, line: int) -> None:
        _refuse_tag(event, line, _TEXT_TAGS)
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            key = _check_text(event.value, line)
            if key in parent.value:
                raise BadFile(line, f"{key[:80]!r} is there twice.", "Keep one of them.")
            parent.key = key
            self._lines[(*parent.place, key)] = line
            self._count(line)
            return
        is_plain = event.tag is None and event.implicit[0]
        self._place(_read_plain(event.value, line) if is_plain else _check_text(event.value, line), line)

    def _begin(self, value: Any, line: int) -> None:
        if len(self._open) >= DEEPEST:
            raise BadFile(line, f"The file is nested more than {DEEPEST} levels deep.", "Use fewer levels.")
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            raise BadFile(line, "A list or an object is not the name of a field.", "Write a text before the colon.")
        self._open.append(_Open(value, self._place(value, line)))

    def _place(self, value: Any, line: int) -> Place:
        """Put a value into the list or object that is being read, and return its place."""
        self._count(line)
        if not self._open:
            self._root = value
            return ()
        parent = self._open[-1]
        if isinstance(parent.value, list):
            place: Place = (*parent.place, len(parent.value))
            parent.value.append(value)
            self._lines[place] = line
        else:
            place = (*parent.place, str(parent.key))
            parent.value[parent.key] = value
            parent.key = None
        return place

    def _count(self, line: int) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise BadFile(line, f"The file has more than {MOST_VALUES:,} values.", "Split it by kinds of policies.")


def _refuse_tag(event: Any, line: int, allowed: Sequence[str | None]) -> None:
    if event.tag is not None and event.tag not in allowed:
        raise BadFile(line, f"The tag {event.tag[:80]} is not allowed.", "Remove it: write plain values.")
    if event.anchor is not None:
        raise BadFile(line, f"&{event.anchor[:80]} names a value for reuse.", "Remove it, and write each value out.")


def _read_plain(text: str, line: int) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _WHOLE.fullmatch(text):
        number = int(text) if len(text) <= _LONGEST_NUMBER else _MOST + 1
        if not _LEAST <= number <= _MOST:
            raise BadFile(line, f"{text[:80]} is too large a number.", "Use at most 64 bits, or quote the text.")
        return number
    if _NUMBER.fullmatch(text):
        value = float(text)
        if not math.isfinite(value):
            raise BadFile(line, f"{text[:80]} is too large a number.", "Use a smaller one, or quote the text.")
        return value
    return _check_text(text, line)


def _check_text(text: str, line: int) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadFile(line, "The text has half a surrogate pair.", "Write the whole character.") from error
    return text


class _Writer(yaml.SafeDumper):
    """Writer that quotes each text which YAML 1.1 or `_read_plain` would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(writer: _Writer, text: str) -> yaml.ScalarNode:
    # YAML 1.1 breaks lines at NEL and at the separators of Unicode, too, and folds them to spaces.
    is_special = text in _CONSTANTS or _NUMBER.fullmatch(text) or not set(text).isdisjoint("\r\x85\u2028\u2029\ufeff")
    style = '"' if is_special else "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _write_text)


def write_file(policies: Mapping[str, Any]) -> str:
    """Return the text of a policy file, which `read_file` reads as the same policies."""
    return HEAD + _write({"format": FORMAT, "policies": dict(policies)})


def write_cases(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a file of cases, which `read_cases` reads as the same cases."""
    return CASES_HEAD + _write({"format": FORMAT, "cases": [dict(one) for one in cases]})


def _write(document: Mapping[str, Any]) -> str:
    return yaml.dump(dict(document), Dumper=_Writer, sort_keys=False, allow_unicode=True, width=100)
