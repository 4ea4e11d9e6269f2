"""The form of the text around a value, which tells whether the text asserts a fact."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

from handoffaudit.validation.text import lower_in_place

_Span: TypeAlias = tuple[int, int]

_MOST_TRIES = 40
_LONGEST_SENTENCE = 400
_LONGEST_LINE = 2_000
_LOOK_BACK = 4_000
_FEWEST_CODE_LINES = 2

# A fenced block with one of these language names, or without a name, may hold prose.
_PLAIN_FENCES = frozenset({"", "text", "txt", "plain", "plaintext", "markdown", "md", "none"})
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*([\w+-]*)", re.MULTILINE)
_OPENS_CODE = re.compile(r"<(code|script|pre|style)\b[^>]{0,200}>", re.IGNORECASE)
_INLINE_CODE = re.compile(r"`([^`\n]{1,300})`")
# A value or a sentence between backticks is emphasis, not code.
_EMPHASIS = re.compile(
    r"[$\u20ac\u00a3]?\d[\d.,:/-]*\s?(?:%|[^\W\d_]*)|[A-Z][\w'\u2019]*,?(?: [\w$\u20ac%'\u2019.,!-]+){3,}"
)
_STRONG_CODE_LINE = re.compile(
    r"\s*(?:import [\w.]+|from [\w.]+ import |def \w+\(|class \w+[(:]|(?:async|await) |return [\w(\[{'\"]"
    r"|(?:for|while|if|elif|with) .{1,200}:\s*(?:#.*)?$|(?:try|else|finally|except\b.*):\s*$|raise \w+\("
    r"|print\(|#include|#!/|\$ \w|>>> |(?:const|let|var|function|public|private|static|export) \w"
    r"|(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE) |(?:pip|npm|apt|curl|wget|git|cd|python3?|bash) [\w./-])"
)
_CODE_LINE = re.compile(
    r"\s*(?:[A-Za-z_][\w.\[\]'\"]*\s*[-+*/|&]?=\s*[^=\s].*|[\w.]+\(.*\)[;,]?\s*(?:#.*)?|[{}\[\])]+[;,]?|(?:#|//|--) .*"
    r"|['\"][\w -]+['\"]\s*:\s*.*,?|.*;)$"
)
_DOLLARS = re.compile(r"\$[^$\n]{0,200}[\\=^][^$\n]{0,200}\$")
_OPENS_FORMULA = re.compile(r"\\\(|\\\[|\$\$|\\begin\{\w{1,40}\*?\}")
_CLOSES: Final = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_LONGEST_FORMULA = 4_000
# Prose between the marks of a formula is not a formula.
_OPERATES = re.compile(r"[=+*/^_<>\\\u2248\u00d7\u00f7]")
_CALCULATES = re.compile(
    r"[\d)}%a-z]\s*(?:[-+*/^\u00d7\u00f7\u00b7]|\\times|\\cdot|\\div)\s*[\d($\\{]|\\frac|\\sqrt|\u2248|\\approx"
)
_LOG_LINE = re.compile(
    r"\s*(?:Traceback \(|File \"|\S{1,300}:\d{1,6}:|\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|\[?(?:INFO|DEBUG|WARN(?:ING)?|ERROR|FATAL)\b"
    r"|exit ?code\b|error code:? \d|HTTP/\d|\w{1,60}(?:Error|Warning|Exception): )",
)
_ITEM = re.compile(r"[ \t]+\S|[-*\u2022+] |\d{1,3}[.)] |[a-z][.)] |\|")
# A blank line below a paragraph. A blank line directly below a heading belongs to the heading.
_BLANK_LINE = re.compile(r"\S[ \t]*\n[ \t]*\n")
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6} .{1,200}|\*\*[^*\n]{1,120}\*\*:?|(?:\d{1,2}[.)] )?[A-Z][A-Z /&-]{3,80}:?"
    r"|[A-Z][\w '()/-]{2,80}:)[ \t]*$",
    re.MULTILINE,
)
_PLANS: Final = re.compile(
    r"\b(?:agents?|approach|assumptions?|constraints?|derive|examples?|goals?|guess(?:es)?|guidelines?|hypothes[ie]s"
    r"|instructions?|look up|members?|next|objectives?|outputs? format|plans?|planning|requests?|requirements?|rules?"
    r"|steps?|strateg(?:y|ies)|suggestions?|tasks?|teams?|to-?do)\b",
    re.IGNORECASE,
)
_GUESSES: Final = re.compile(r"\b(?:guess(?:es)?|hypothes[ie]s|assumptions?|estimates?)\b", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:[\s>#*_\-\u2022+]|\d{1,3}[.)]\s|[a-z][.)]\s|\*\*[^*\n]{1,80}:?\*\*:?|step \d+[.:)]?)*", re.IGNORECASE
)
_ORDERS: Final = re.compile(
    r"(?:(?:next|then|first|finally|now),? )?"
    r"(?:please|let['\u2019]?s|let us|i(?:['\u2019]ll| will| would| need to| am going to)|your (?:goal|job|role|task)"
    r"|we(?:['\u2019]ll| will| need to| should| must| can| have to)"
    r"|you (?:will|should|must|can|need to|have to|are (?:an?|the|to))"
    r"|to (?:address|calculate|check|confirm|determine|do|ensure|find|get|identify|locate|proceed|solve|verify)"
    r"|access|analy[sz]e|ask|begin|calculate|call|check|click|collect|compare|compute|confirm|consider|convert|count"
    r"|create|cross-check|determine|do|download|ensure|examine|execute|explore|extract|filter|find|focus|follow|gather"
    r"|get|go|identify|implement|keep|list|load|locate|look|make|navigate|obtain|open|output|provide|read|repeat|report"
    r"|research|retrieve|return|review|run|scrape|scroll|search|select|set|solve|start|summari[sz]e|try|use|using"
    r"|verify|visit|write)\b(?!\s?:| (?:was|were|is|are|has|had|of|shows?)\b)",
    re.IGNORECASE,
)
# The first words of a text that tells an agent what to do, such as a system prompt.
_PROMPT: Final = re.compile(
    r"\s*(?:#+ .{1,100}\n\s*)?(?:you are (?:an?|the|now|in|part|working|given|responsible|tasked|helping)"
    r"|you will (?:act|be|get|have|help|receive|work)|your (?:goal|job|role|task)(?: is|:)|act as)\b",
    re.IGNORECASE,
)
_HEDGES: Final = re.compile(
    r"\b(?:(?:about|around)(?=\s+(?:[\w-]+ )?\W?\d)|almost|approx(?:\.|imate(?:ly)?)?"
    r"|assum(?:e|es|ed|ing|ption|ptions)|could"
    r"|e\.g\.|estimat(?:e|es|ed|ion|ions)|for (?:example|instance)|guess(?:es|ed)?|hypothetical(?:ly)?|likely"
    r"|(?-i:may)|maybe|might|mock|nearly|perhaps|placeholder|possibl[ye]|probabl[ye]|roughly|simulated?|such as"
    r"|suppose|typical(?:ly)?|usually|would)(?!\w)|~|\u2248",
    re.IGNORECASE,
)
# Every match of `_HEDGES` contains one of these stems. The search for stems is many times faster than the pattern.
_HEDGE_STEMS: Final = (
    "about", "almost", "approx", "around", "assum", "could", "e.g.", "estimat", "for example", "for instance", "guess",
    "hypothetical", "likely", "may", "might", "mock", "nearly", "perhaps", "placeholder", "possibl", "probabl",
    "roughly", "simulate", "such as", "suppose", "typical", "usually", "would", "~", "\u2248",
)  # fmt: skip
_ENDS = re.compile(r"[.!?](?=[\s\"')\]*]|$)|\n")
# JSON begins like this, except for empty objects and lists.
_STARTS = re.compile(r"\{\s*\"|\[\s*[\[{\"\d\-tfnNI]")
_DECODER = json.JSONDecoder()
_AROUND = "()[]{}.,;:!?*"
_PATH_MARKS = re.compile(r"%[0-9A-Fa-f]{2}")
_POSITION_ENDS: Final = (
    "edit", "line", "lines", "row", "rows", "page", "pages", "pp.", "verse", "verses", "chapter", "chapters", "section",
    "sections", "slide", "slides", "cell", "cells", "step", "steps", "ratio", "odds",
)  # fmt: skip
_POSITION = re.compile(
    r"\b(?:edit|lines?|rows?|pages?|pp\.|verses?|chapters?|sections?|slides?|cells?|steps?|ratio|odds)\s*$",
    re.IGNORECASE,
)


class Form(StrEnum):
    """The form of the text around a value. Only statements and data assert facts."""

    STATEMENT = "statement"
    CODE = "code"
    DATA = "data"
    FORMULA = "formula"
    LOG = "log"
    LINK = "link"
    PLAN = "plan"
    GUESS = "guess"


class TextForms:
    """The forms of one text. The spans of code, data and formulas are found once, when they are first needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: dict[int, Form] = {}
        # The end of each line that was looked at, and whether it is a line of a log, by the start of the line.
        self._lines: dict[int, tuple[int, bool]] = {}
        self._sentences: dict[_Span, tuple[bool, Form]] = {}
        # The end of the first blank line below a heading, by the end of the heading.
        self._blanks: dict[int, int | None] = {}

    def of(self, start: int, end: int) -> Form:
        """Return the form of the text around the value from `start` to `end`."""
        found = self._found.get(start)
        if found is None:
            found = self._found[start] = self._find_form(start, end)
        return found

    def _find_form(self, start: int, end: int) -> Form:
        line_start, line_end, is_log = self._line(start)
        if start == 0 and end == len(self.text) and self.text[0].isdigit():
            # A field that holds a number, a date or a time, and nothing else.
            return Form.LOG if is_log else Form.STATEMENT
        if self.code and _within(self.code, start):
            return Form.CODE
        if is_log:
            return Form.LOG
        if self._is_in_link(start, end, line_start, line_end):
            return Form.LINK
        calculates, form = self._sentence_form(self._sentence(start, end, line_start), line_start)
        if calculates or (self.formulas and _within(self.formulas, start)):
            return Form.FORMULA
        return Form.DATA if self.data and _within(self.data, start) else form

    @cached_property
    def _is_prompt(self) -> bool:
        return _PROMPT.match(self.text) is not None

    @cached_property
    def code(self) -> list[_Span]:
        found = list(_fences(self.text)) if "```" in self.text or "~~~" in self.text else []
        if "<" in self.text:
            found += _tagged_code(self.text)
        if "`" in self.text:
            found += [match.span() for match in _INLINE_CODE.finditer(self.text) if _is_code(match[1])]
        return _merge([*found, *_bare_code(self.text)])

    @cached_property
    def data(self) -> list[_Span]:
        """Return the spans of JSON objects, and of JSON arrays that contain a quoted text."""
        return list(_json_spans(self.text))

    @cached_property
    def formulas(self) -> list[_Span]:
        if "\\" not in self.text and "$" not in self.text:
            return []
        return _merge([*_long_formulas(self.text), *(match.span() for match in _DOLLARS.finditer(self.text))])

    @cached_property
    def _headings(self) -> list[tuple[int, str]]:
        return [(match.end(), match.group()) for match in _HEADING.finditer(self.text)]

    def _line(self, at: int) -> tuple[int, int, bool]:
        """Return the span of the line around an offset, and whether it is a line of a log."""
        text = self.text
        start = max(text.rfind("\n", max(0, at - _LONGEST_LINE), at) + 1, at - _LONGEST_LINE, 0)
        known = self._lines.get(start)
        if known is not None and at <= known[0]:
            return start, *known
        end = text.find("\n", at, at + _LONGEST_LINE)
        is_closed = end >= 0
        end = end if is_closed else min(len(text), at + _LONGEST_LINE)
        is_log = _LOG_LINE.match(text, start, end) is not None
        # The span of a very long line depends on the offset, so it is not remembered.
        if is_closed and end - start < _LONGEST_LINE:
            self._lines[start] = (end, is_log)
        return start, end, is_log

    def _is_in_link(self, start: int, end: int, line_start: int, line_end: int) -> bool:
        """Return whether the value is part of a path or address, or a position such as `lines 22:24`."""
        text, size = self.text, end - start
        while start > line_start and not text[start - 1].isspace() and text[start - 1] not in "\"'<>|":
            start -= 1
        before = text[max(line_start, start - 20) : start].rstrip()
        is_candidate = not before.isascii() or before.lower().endswith(_POSITION_ENDS)
        if is_candidate and _POSITION.search(text, max(line_start, start - 20), start):
            return True
        while end < line_end and not text[end].isspace() and text[end] not in "\"'<>|":
            end += 1
        token = text[start:end]
        is_part = len(token.strip(_AROUND)) > size
        return is_part and (token.count("/") > 1 or bool(_PATH_MARKS.search(token)))

    @cached_property
    def _ends(self) -> list[int]:
        """Return the offset of the end of each sentence, in order."""
        return [match.end() for match in _ENDS.finditer(self.text)]

    def _sentence(self, start: int, end: int, line_start: int) -> _Span:
        text, ends = self.text, self._ends
        first = max(line_start, start - _LONGEST_SENTENCE)
        if start > first and text[start - 1] in ".!?":
            first = start
        else:
            before = bisect_right(ends, start) - 1
            first = max(first, ends[before]) if before >= 0 else first
        after = bisect_right(ends, end)
        longest = min(len(text), end + _LONGEST_SENTENCE)
        return first, min(ends[after], longest) if after < len(ends) else longest

    def _sentence_form(self, span: _Span, line_start: int) -> tuple[bool, Form]:
        """Return whether a sentence calculates, and its form. The values of one sentence share the answer."""
        found = self._sentences.get(span)
        if found is None:
            sentence = self.text[span[0] : span[1]]
            found = self._sentences[span] = (_calculates(sentence), self._form_of_sentence(sentence, line_start))
        return found

    def _form_of_sentence(self, sentence: str, line_start: int) -> Form:
        if self._is_prompt:
            return Form.PLAN
        heading = self._heading_above(line_start)
        if self._is_hedged(sentence) or (heading and _GUESSES.search(heading)):
            return Form.GUESS
        lead = _LEAD.match(sentence)
        begin = lead.end() if lead else 0
        if sentence.rstrip().endswith("?") or _ORDERS.match(sentence, begin) or (heading and _PLANS.search(heading)):
            return Form.PLAN
        return Form.STATEMENT

    def _is_hedged(self, sentence: str) -> bool:
        if not self._hedge_stems:
            return False
        folded = sentence.lower()
        return any(map(folded.__contains__, self._hedge_stems)) and _HEDGES.search(sentence) is not None

    @cached_property
    def _hedge_stems(self) -> list[str]:
        """Return the stems of hedges that occur in the text."""
        return list(filter(self.text.lower().__contains__, _HEDGE_STEMS))

    def _heading_above(self, at: int) -> str:
        if not self._headings:
            return ""
        position = bisect_right(self._headings, at, key=lambda heading: heading[0]) - 1
        if position < 0:
            return ""
        where, heading = self._headings[position]
        if at - where > _LOOK_BACK:
            return ""
        # A heading is about the list or the paragraph below it. Later paragraphs speak for themselves.
        is_listed = _ITEM.match(self.text, at) is not None
        return heading if is_listed or not self._has_blank_line(where, at) else ""

    def _has_blank_line(self, start: int, end: int) -> bool:
        if start not in self._blanks:
            match = _BLANK_LINE.search(self.text, start, start + _LOOK_BACK)
            self._blanks[start] = match.end() if match else None
        blank = self._blanks[start]
        return blank is not None and blank <= end


def _calculates(sentence: str) -> bool:
    return ("=" in sentence or "\u2248" in sentence) and _CALCULATES.search(sentence) is not None


def _within(spans: list[_Span], at: int) -> bool:
    position = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return position >= 0 and at < spans[position][1]


def _merge(spans: list[_Span]) -> list[_Span]:
    """Return the spans in order, with overlapping spans joined."""
    merged: list[_Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _fences(text: str) -> Iterator[_Span]:
    """Yield the spans of fenced blocks that hold code. A fenced block of prose is left out."""
    opened: tuple[int, int, str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = (match.start(), match.end(), match[1].lower())
        else:
            yield from _find_fenced(text, opened, match.start(), match.end())
            opened = None
    if opened is not None:
        yield from _find_fenced(text, opened, len(text), len(text))


def _find_fenced(text: str, opened: tuple[int, int, str], end_of_body: int, end: int) -> Iterator[_Span]:
    start, body, language = opened
    if language not in _PLAIN_FENCES or any(True for _ in _bare_code(text[body:end_of_body])):
        yield start, end


def _is_code(text: str) -> bool:
    return _EMPHASIS.fullmatch(text) is None or _STRONG_CODE_LINE.match(text) is not None


def _long_formulas(text: str) -> Iterator[_Span]:
    """Yield the spans of LaTeX formulas with an opening and a closing mark, but not formulas between single `$`."""
    at = 0
    while match := _OPENS_FORMULA.search(text, at):
        opening = match.group()
        closing = _CLOSES.get(opening) or opening.replace("begin", "end", 1)
        end = text.find(closing, match.end(), match.end() + _LONGEST_FORMULA)
        at = match.end() if end < 0 else end + len(closing)
        if end >= 0 and _OPERATES.search(text, match.end(), end):
            yield match.start(), at


def _tagged_code(text: str) -> Iterator[_Span]:
    """Yield the spans of code between HTML tags. A tag that is not closed is left out."""
    folded, unclosed, at = lower_in_place(text), set[str](), 0
    while match := _OPENS_CODE.search(text, at):
        closing = f"</{match[1].lower()}>"
        end = -1 if closing in unclosed else folded.find(closing, match.end())
        at = match.end() if end < 0 else end + len(closing)
        if end < 0:
            unclosed.add(closing)
        else:
            yield match.start(), at


def _bare_code(text: str) -> Iterator[_Span]:
    """Yield runs of at least two lines that look like code, if one of the lines is unmistakable."""
    start = at = codes = strong = 0
    last = 0
    lines = text.splitlines(keepends=True)
    strong_lines = [_STRONG_CODE_LINE.match(line[:_LONGEST_SENTENCE].rstrip()) is not None for line in lines]
    # Most texts have no unmistakable line, and the search for the other lines of code takes longer.
    for line, is_strong in zip(lines, strong_lines, strict=True) if any(strong_lines) else ():
        end = at + len(line)
        shown = line[:_LONGEST_SENTENCE].rstrip()
        if is_strong or (shown.strip() and _CODE_LINE.match(shown)):
            start = start if codes else at
            codes, strong, last = codes + 1, strong + is_strong, end
        elif shown.strip() and not (codes and shown[:1] in " \t"):
            if strong and codes >= _FEWEST_CODE_LINES:
                yield start, last
            codes = strong = 0
        at = end
    if strong and codes >= _FEWEST_CODE_LINES:
        yield start, last


def _json_spans(text: str) -> Iterator[_Span]:
    at = tries = 0
    while tries < _MOST_TRIES and (match := _STARTS.search(text, at)):
        tries += 1
        start = match.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        if value and (isinstance(value, dict) or '"' in text[start:end]):
            yield start, end
        at = end
