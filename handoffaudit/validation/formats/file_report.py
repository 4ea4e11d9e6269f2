"""Reports about an expected handoff file: its content, the text block in its place, or why neither can be used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from handoffaudit.validation.formats.messages import not_an_object
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import JSON_PARSE, MAX_DEPTH, deeper_than, parse_json, too_deep
from handoffaudit.validation.paths import Location
from handoffaudit.validation.text import clean_or_empty, show_path

MARK: Final = "---HANDOFF---"

_KEY = re.compile(r"[ \t>*`-]*(status|artifacts|next|summary)[ \t*`]*:[ \t]*(.*)", re.IGNORECASE | re.ASCII)

_BULLET = re.compile(r"[ \t]*[-*][ \t]+")

_NOBODY = ("null", "none")

_LONGEST_BLOCK = 20_000

_NEEDED = ("status", "artifacts", "next", "summary")


def read_block(text: str) -> dict[str, Any] | None:
    """Return the last block of `text` as the object of a handoff file, or None if a block or a field is missing.

    >>> read_block("Done.\\n---HANDOFF---\\nSTATUS: complete\\nARTIFACTS: a.md, b.md\\nNEXT: none\\nSUMMARY: one line")
    {'status': 'complete', 'artifacts': ['a.md', 'b.md'], 'next': None, 'summary': 'one line'}
    """
    lines = _read_fields(last_block(text))
    if _list_missing_fields(lines):
        return None
    following = _join_lines(lines["next"])
    return {
        "status": _join_lines(lines["status"]),
        "artifacts": _split_list(lines["artifacts"]),
        "next": None if following.lower() in _NOBODY else following,
        "summary": _join_lines(lines["summary"]),
    }


def last_block(text: str) -> str:
    """Return the first 20,000 characters after the last mark in `text`, empty if there is no mark.

    >>> last_block("---HANDOFF---\\nSTATUS: x")
    '\\nSTATUS: x'
    """
    start = text.rfind(MARK)
    return text[start + len(MARK) :][:_LONGEST_BLOCK] if start >= 0 else ""


def why_no_block(text: str) -> str:
    """Describe in one sentence what `read_block` misses in `text`. Return an empty text if nothing is missing.

    >>> why_no_block("---HANDOFF---\\nSTATUS: complete\\nNEXT: none")
    'The last ---HANDOFF--- block has no ARTIFACTS and no SUMMARY.'
    """
    if MARK not in text:
        return f"The response has no {MARK} block."
    lacking = [f"no {name.upper()}" for name in _list_missing_fields(_read_fields(last_block(text)))]
    *before, last = lacking or [""]
    return f"The last {MARK} block has {', '.join(before)}{' and ' if before else ''}{last}." if last else ""


def _list_missing_fields(lines: dict[str, list[str]]) -> list[str]:
    """Return the names of the missing fields; artifacts and a summary may be empty."""
    full = ("status", "next")
    return [name for name in _NEEDED if name not in lines or (name in full and not _join_lines(lines[name]))]


def _read_fields(block: str) -> dict[str, list[str]]:
    """Return the lines of each key, including the lines up to the next key.

    After the first key, a line that begins with three dashes or three backticks ends the block. If a key is repeated,
    its last value counts.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in block.splitlines():
        if found and line.strip().startswith(("---", "```")):
            break
        match = _KEY.fullmatch(line)
        if match:
            current = found.setdefault(match[1].lower(), [])
            current[:] = [match[2].strip()]
        elif current is not None:
            current.append(line.strip())
    return found


def _join_lines(lines: list[str]) -> str:
    return " ".join(line for line in lines if line)


def _split_list(lines: list[str]) -> list[str]:
    """Return the entries of a list that is written with commas, in brackets, or with one entry per line."""
    text = ",".join(_BULLET.sub("", line, count=1) for line in lines if line).strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    names = [name.strip().strip("\"'`").strip() for name in text.split(",")]
    return [name for name in names if name and name.lower() not in _NOBODY]


HANDOFF_FILE_MISSING: Final = Code(
    "files.handoff_file_missing",
    Severity.ERROR,
    "Handoff file is missing",
    what="The agent did not write a handoff file to the expected path, and its response does not "
    "say how the phase ended.",
    why="The next agent has no result to start from.",
    hint="Make the agent write its handoff file to the expected path.",
    layer="structure",
)
TEXT_FALLBACK: Final = Code(
    "files.text_fallback",
    Severity.WARNING,
    "Recovered from the response's text",
    what="The handoff file could not be used, so the ---HANDOFF--- block of the agent's response was read instead.",
    why="The block is less strict than the file, so fields can get lost unnoticed.",
    hint="Make the agent write its handoff file: status, artifacts, next and summary as one JSON object.",
    layer="structure",
)


FILE_BASICS: Final[Basics] = {("status",): "string", ("artifacts",): "array", ("next",): "any", ("summary",): "string"}
FILE_SHAPE: Final = Shape("handoff-file", FILE_BASICS)

_BOM = "\ufeff"
_FENCE = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_CONTENT: Location = ("file", "content")
_MOST_PATHS = 50
_COMPARED = 300


class Reason(StrEnum):
    """A reason why a handoff file cannot be used."""

    FILE_MISSING = "file_missing"
    JSON_PARSE_ERROR = "json_parse_error"
    SCHEMA_INVALID = "schema_invalid"


class Source(StrEnum):
    """The origin of a handoff: its file, or the text of the response."""

    HANDOFF_JSON = "handoff_json"
    TEXT_FALLBACK = "text_fallback"


class Fallback(StrEnum):
    """The result of reading the text of the response instead of the file."""

    OK = "text_fallback_ok"
    FAILED = "text_fallback_fail"


@dataclass(frozen=True, slots=True)
class FileFinding:
    """The judgement of a report.

    `content` is the object of the handoff, empty if there is none. `issues` say why the file cannot be used; if there
    are issues, `source` is never the file. `reason` and `fallback` are None if the file is good, and `fallback` is also
    None if there is no text. `no_block` says what the text lacks. `wrong_path` is the file with the expected name in
    another folder, the nearest if there are several.
    """

    content: dict[str, Any]
    source: Source
    reason: Reason | None = None
    fallback: Fallback | None = None
    issues: tuple[Issue, ...] = ()
    no_block: str = ""

    @property
    def wrong_path(self) -> str:
        return next((issue.metadata["wrong_path"] for issue in self.issues if "wrong_path" in issue.metadata), "")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the reason why the file cannot be used and the result of the fallback, as far as they exist."""
        return tuple(str(one) for one in (self.reason, self.fallback) if one is not None)

    @property
    def blocks(self) -> bool:
        """Return whether the run should stop, because neither file nor response says how the phase ended."""
        return self.reason is not None and self.fallback is not Fallback.OK


def judge_report(report: Mapping[str, Any]) -> FileFinding:
    """Return the judgement of a report; any JSON object that is not a report counts as a missing file."""
    file = report.get("file")
    found = _judge_file(file if isinstance(file, dict) else {}, report)
    text = report.get("response_text")
    if found.reason is None or not isinstance(text, str):
        return found
    block = read_block(text)
    if block is None:
        return replace(found, fallback=Fallback.FAILED, no_block=why_no_block(text))
    return replace(found, content=block, fallback=Fallback.OK)


def fallback_issue(finding: FileFinding, expected_path: str) -> Issue:
    """Return the warning about a handoff that was read from the text of the response."""
    first = finding.issues[0].message if finding.issues else ""
    return make(
        TEXT_FALLBACK,
        location=("file",),
        message=f"The handoff file {show_path(expected_path)} cannot be used ({finding.reason}), so the {MARK} block "
        f"of the response was read instead. {first}",
        hint=finding.issues[0].hint if finding.issues else None,
        reason=str(finding.reason),
        source=str(finding.source),
        fallback=str(finding.fallback),
    )


def _judge_file(file: dict[str, Any], report: Mapping[str, Any]) -> FileFinding:
    content = file.get("content")
    if file.get("exists") is not True:
        return _reject(Reason.FILE_MISSING, {}, _report_missing(report, _clean_error(file)))
    if content is None:
        return _reject(Reason.JSON_PARSE_ERROR, {}, _report_unreadable(report, _clean_error(file)))
    if isinstance(content, str):
        parsed, issue = _parse_content(content)
        if issue:
            return _reject(Reason.JSON_PARSE_ERROR, {}, issue)
        content = parsed
    elif deeper_than(content, MAX_DEPTH):
        return _reject(Reason.JSON_PARSE_ERROR, {}, _locate_in_report(too_deep(), Reason.JSON_PARSE_ERROR))
    return _check_contract(content)


def _check_contract(content: object) -> FileFinding:
    if not isinstance(content, dict):
        return _reject(Reason.SCHEMA_INVALID, {}, _locate_in_report(not_an_object(content), Reason.SCHEMA_INVALID))
    broken = [_locate_in_report(issue, Reason.SCHEMA_INVALID) for issue in FILE_SHAPE.check(content)]
    if broken:
        return _reject(Reason.SCHEMA_INVALID, content, *broken)
    return FileFinding(content, Source.HANDOFF_JSON)


def _reject(reason: Reason, content: dict[str, Any], *issues: Issue) -> FileFinding:
    return FileFinding(content, Source.TEXT_FALLBACK, reason, issues=issues)


def _locate_in_report(issue: Issue, reason: Reason, hint: str | None = None) -> Issue:
    """Return the issue with its location in the report, the reason, and the given hint if there is one."""
    return msgspec.structs.replace(
        issue,
        hint=hint or issue.hint,
        location=(*_CONTENT, *issue.location),
        metadata={**issue.metadata, "reason": str(reason)},
    )


def _clean_error(file: Mapping[str, Any]) -> str:
    """Return the sender's message about a file that the sender could not read."""
    return clean_or_empty(file.get("error")).strip().rstrip(".")


def _report_unreadable(report: Mapping[str, Any], error: str) -> Issue:
    wanted = clean_or_empty(report.get("expected_path"))
    issue = make(
        JSON_PARSE,
        message=f"The handoff file {show_path(wanted)} exists, but cannot be read{': ' if error else ''}{error}.",
        hint="Make the agent write one JSON object to this path, as a small UTF-8 file that other users may read.",
        expected=wanted,
    )
    return _locate_in_report(issue, Reason.JSON_PARSE_ERROR)


def _report_missing(report: Mapping[str, Any], error: str) -> Issue:
    expected, elsewhere = report.get("expected_path"), report.get("elsewhere")
    wanted = expected if isinstance(expected, str) else ""
    names = elsewhere[:_MOST_PATHS] if isinstance(elsewhere, list) else []
    paths = [path for path in names if isinstance(path, str)]
    nearest = max(paths, key=lambda path: _nearness(path, wanted), default=None)
    found = f" A file of that name is at {show_path(nearest)}." if nearest else ""
    metadata: dict[str, Any] = {"wrong_path": nearest, "elsewhere": paths} if nearest else {}
    return make(
        HANDOFF_FILE_MISSING,
        location=("file", "exists"),
        message=f"There is no handoff file at {show_path(wanted)}{f' ({error})' if error else ''}.{found}",
        hint=f"If that file belongs to this agent, make the agent write to {show_path(wanted)}, not "
        f"{show_path(nearest)}."
        if nearest
        else None,
        expected=wanted,
        actual=nearest,
        reason=str(Reason.FILE_MISSING),
        **metadata,
    )


def _nearness(path: str, wanted: str) -> tuple[float, float]:
    """Return the similarity of two paths: of their folders first, then of their spelling."""
    path, wanted = path[-_COMPARED:], wanted[-_COMPARED:]
    return _likeness(_folders(path), _folders(wanted)), _likeness(path, wanted)


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of entries that two sequences have in common in the same order, from 0 to 1.

    The longest common subsequence is computed with each row of its table in one integer, because `difflib` took half a
    second for each hostile path.
    """
    places: dict[str, int] = {}
    for at, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << at
    row = every = (1 << len(one)) - 1
    for item in other:
        found = row & places.get(item, 0)
        row = ((row + found) | (row - found)) & every
    return 2 * (len(one) - row.bit_count()) / (len(one) + len(other) or 1)


def _folders(path: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]


def _parse_content(text: str) -> tuple[object, Issue | None]:
    """Return the parsed content of a handoff file, or the issue that says why the content cannot be parsed.

    A byte-order mark, which our own reader skips, is a fault in a handoff file.
    """
    value, issues = parse_json(text.encode("utf-8", "surrogatepass"))
    if not issues and not text.startswith(_BOM):
        return value, None
    removals = _name_removals(text)
    issue = issues[0] if issues else make(JSON_PARSE, message="The file begins with a byte-order mark.")
    hint = f"It can be read after removing {removals}: write only the JSON object." if removals else None
    return None, _locate_in_report(issue, Reason.JSON_PARSE_ERROR, hint)


def _name_removals(text: str) -> str | None:
    """Name the parts to remove to make the file valid JSON. Return None if removing parts is not enough."""
    removed = []
    if text.startswith(_BOM):
        text, removed = text.removeprefix(_BOM), ["the byte-order mark"]
    fenced = _FENCE.fullmatch(text)
    if fenced:
        text = fenced[1]
        removed.append("the code fence")
    if parse_json(text.encode("utf-8", "surrogatepass"))[1]:
        text = _TRAILING_COMMA.sub(r"\1", text)
        removed.append("the trailing comma")
        if parse_json(text.encode("utf-8", "surrogatepass"))[1]:
            return None
    return " and ".join(removed) or None
