"""The claims of a verdict beside their sources, with their values marked in the text."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from handoffaudit.dashboard.handoffs.verdict_findings import parts_of
from handoffaudit.dashboard.safe_text import cut, readable, weight
from handoffaudit.handoffs.models import ToolResult
from handoffaudit.validation.text import lower_in_place
from handoffaudit.validation.tool_results import is_result, label_in

MOST_CLAIMS = 30

MOST_TEXT = 6_000

MOST_EXCERPT = 300

MOST_WEIGHT = 10_000

MOST_NAME = 80

# A span is the name of a source and the words around a value. The name of a tool result has up to 136 characters.
MOST_SPAN = 260

MOST_VALUES = 60

MOST_UNUSED = 20

MOST_WHERE = 3

MOST_NAMED = 1000

TYPES = {
    "cited": "cited",
    "cites_unknown": "cites an unknown source",
    "assumption": "assumption",
    "uncited": "no source named",
    "derived": "a number",
}

_DOUBTFUL = frozenset({"uncited", "cites_unknown"})

STATUSES = ("ungrounded", "noted", "reported", "derived", "grounded")

WORDS = {
    "ungrounded": "in no source",
    "noted": "in no source (information only)",
    "reported": "reported, of unknown origin",
    "derived": "follows from sources",
    "grounded": "in a source",
}


@dataclass(frozen=True, slots=True)
class Span:
    """The words of a source around a value.

    `found` is the value in those words; `found` is empty if the source states the value in other words. `result` is
    the tool result that the words are from, or None if the words are from another source or the result was removed.
    """

    source: str
    before: str
    found: str = ""
    after: str = ""
    result: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a claim; `number` connects its mark in the text with its line in the list of values."""

    number: int
    kind: str
    status: str
    words: str
    text: str
    where: tuple[Span, ...]
    more: int
    closest: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a claim's text: plain text, or one value."""

    text: str
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """A source that a claim cites, or evidence that no claim cites.

    `excerpt` is empty if the sender did not supply the source. `pieces` split the excerpt at the values of the claim;
    evidence that no claim cites has no pieces.
    """

    source: str
    excerpt: str
    is_known: bool
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A claim as the page shows it; `left_out` is the number of characters of its text that are not shown."""

    claim_id: str
    field_path: str
    pointer: str
    claim_type: str
    type_words: str
    pieces: tuple[Piece, ...]
    left_out: int
    values: tuple[Value, ...]
    cited: tuple[Cited, ...]

    @property
    def is_doubtful(self) -> bool:
        return self.claim_type in _DOUBTFUL

    @property
    def is_open(self) -> bool:
        """Return whether somebody should look at the claim.

        This holds if a value is in no source, or if the claim names no source or an unknown source.
        """
        return self.is_doubtful or any(value.status == "ungrounded" for value in self.values)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a verdict; `searched` names the sources in which the values were looked up.

    `rest_on_results` says whether a value rests on a tool result.
    """

    shown: tuple[ShownClaim, ...]
    hidden: int
    totals: tuple[tuple[str, str, int], ...]
    unused: tuple[Cited, ...]
    searched: tuple[str, ...] = ()
    rest_on_results: bool = False


def rests_on_results(content: Mapping[str, Any] | None) -> bool:
    """Return whether a value of the verdict rests on a tool result."""
    claims = (content or {}).get("claims") or []
    return any(is_result(place) for claim in claims for value in claim["values"] for place in value["where"])


def claims_of(
    content: Mapping[str, Any] | None,
    document: Any,
    evidence: Sequence[Any],
    searched: Sequence[str] = (),
    results: Mapping[str, ToolResult] = MappingProxyType({}),
) -> Claims | None:
    """Return the claims of a verdict, open claims first; None if the verdict has no claims.

    `document` holds the claims' full texts, which the verdict may have cut. `results` holds the tool results of the
    trace by their labels in the verdict.
    """
    claims = (content or {}).get("claims") or []
    if not claims:
        return None
    known = dict(_read_sources(evidence))
    names: Mapping[str, str | ToolResult] = {**_names(evidence), **results}
    everything = sorted(
        (_show_claim(claim, document, known, names) for claim in claims), key=lambda claim: not claim.is_open
    )
    counted = Counter(value["status"] for claim in claims for value in claim["values"])
    totals = tuple((status, WORDS[status], counted[status]) for status in STATUSES if status in counted)
    cited = {name for claim in claims for name in claim["evidence_ids"]}
    beside = [(name, text) for name, text in known.items() if name not in cited]
    unused = [Cited(cut(name, MOST_NAME), _excerpt(text), is_known=True) for name, text in beside]
    shown = tuple(_limit_claims(everything))
    sources = tuple(cut(name, MOST_NAME) for name in searched[:MOST_UNUSED])
    rest = rests_on_results(content)
    return Claims(shown, len(everything) - len(shown), totals, tuple(unused[:MOST_UNUSED]), sources, rest)


def _limit_claims(claims: Iterable[ShownClaim]) -> Iterable[ShownClaim]:
    """Return as many claims as one page shows, but at least one."""
    heavy = 0
    for number, claim in enumerate(claims):
        heavy += weight(claim.field_path) + sum(weight(piece.text) for piece in claim.pieces)
        heavy += sum(weight(source.source) + weight(source.excerpt) for source in claim.cited)
        heavy += sum(weight(value.text) + sum(map(_weight_of, value.where)) for value in claim.values)
        if number and (heavy > MOST_WEIGHT or number == MOST_CLAIMS):
            return
        yield claim


def _weight_of(span: Span) -> int:
    return sum(map(weight, (span.source, span.before, span.found, span.after)))


def _read_sources(evidence: Sequence[Any]) -> Iterable[tuple[str, str]]:
    for item in evidence:
        if isinstance(item, dict) and isinstance(item.get("source"), str):
            content = item.get("content")
            yield item["source"], content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _names(evidence: Sequence[Any]) -> Mapping[str, str]:
    """Return the names of the sources by their place in the evidence, such as `evidence[0]`."""
    named = enumerate(evidence[:MOST_NAMED])
    return {f"evidence[{at}]": item["source"] for at, item in named if isinstance(item, dict) and "source" in item}


def _excerpt(text: str) -> str:
    return cut(text, MOST_EXCERPT)


def _show_claim(
    claim: Mapping[str, Any], document: Any, known: Mapping[str, str], names: Mapping[str, str | ToolResult]
) -> ShownClaim:
    whole = _whole(claim, document)
    spans = claim["values"][:MOST_VALUES]
    values = tuple(_value(number, value, names) for number, value in enumerate(spans, 1))
    text = whole[: MOST_TEXT if weight(whole[:MOST_TEXT]) < MOST_WEIGHT else MOST_NAME]
    return ShownClaim(
        claim_id=claim["claim_id"],
        field_path=cut(claim["field_path"], 160),
        pointer=claim["json_pointer"],
        claim_type=claim["claim_type"],
        type_words=TYPES.get(claim["claim_type"], claim["claim_type"]),
        pieces=tuple(_pieces(text, spans, values)),
        left_out=len(whole) - len(text),
        values=tuple(sorted(values, key=lambda value: STATUSES.index(value.status))),
        cited=tuple(_cite(name, known.get(name), values) for name in claim["evidence_ids"][:MOST_UNUSED]),
    )


def _cite(name: str, content: str | None, values: Sequence[Value]) -> Cited:
    """Return a source with an excerpt of its text.

    The excerpt is the beginning of the text. If the claim's values occur only after this beginning, the excerpt is the
    text around their first occurrence.
    """
    if content is None:
        return Cited(cut(name, MOST_NAME), "", is_known=False)
    by_text = {lower_in_place(value.text): value for value in values if value.status == "grounded" and value.text}
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(text)}(?!\w)" for text in by_text), re.IGNORECASE)
    first = pattern.search(content) if by_text else None
    start = max(first.start() - MOST_EXCERPT // 2, 0) if first and first.end() > MOST_EXCERPT else 0
    text = content[start : start + MOST_EXCERPT]
    pieces = [Piece("…")] if start else []
    at = 0
    for found in pattern.finditer(text) if by_text else ():
        pieces += [Piece(readable(text[at : found.start()])), Piece(found[0], by_text.get(lower_in_place(found[0])))]
        at = found.end()
    pieces.append(Piece(readable(text[at:]) + ("…" if start + MOST_EXCERPT < len(content) else "")))
    return Cited(cut(name, MOST_NAME), text, is_known=True, pieces=tuple(piece for piece in pieces if piece.text))


def _whole(claim: Mapping[str, Any], document: Any) -> str:
    """Return the claim's full text from the document, or the text in the verdict if the document lacks it."""
    part = document
    for key in parts_of(claim["json_pointer"]):
        if isinstance(part, list):
            part = part[int(key)] if key.isdigit() and int(key) < len(part) else None
        else:
            part = part.get(key) if isinstance(part, dict) else None
    kept: str = claim["claim_text"]
    return part if isinstance(part, str) and part.startswith(kept) else kept


def _value(number: int, value: Mapping[str, Any], names: Mapping[str, str | ToolResult]) -> Value:
    where = value["where"]
    # Verdicts of earlier versions do not say whether a value counts.
    status = value["status"] if value.get("counts", True) else "noted"
    return Value(
        number=number,
        kind=value["kind"],
        status=status,
        words=WORDS.get(status, status),
        text=cut(value["text"], 120),
        where=tuple(_span(cut(name, MOST_SPAN), value["text"], names) for name in where[:MOST_WHERE]),
        more=max(len(where) - MOST_WHERE, 0),
        closest=cut(value["closest"], 80),
    )


def _span(where: str, text: str, names: Mapping[str, str | ToolResult]) -> Span:
    """Split `evidence[0].content: words around the value` into the source and the words around the value."""
    place, is_named, words = where.partition(": ")
    if not is_named:
        return Span("", where)
    known = names.get(label_in(place) if is_result(place) else place.partition(".")[0])
    result = known if isinstance(known, ToolResult) else None
    source = f"{cut(known, MOST_NAME)} ({place})" if isinstance(known, str) else place
    found = lower_in_place(words).find(lower_in_place(text)) if text else -1
    if found < 0:
        return Span(source, words, result=result)
    end = found + len(text)
    return Span(source, words[:found], words[found:end], words[end:], result)


def _pieces(text: str, spans: Sequence[Mapping[str, Any]], values: Sequence[Value]) -> Iterable[Piece]:
    at = 0
    for span, value in sorted(zip(spans, values, strict=True), key=lambda pair: pair[0]["start"]):
        start, end = span["start"], span["end"]
        # Of overlapping values, only the first is marked. A value may lie beyond the end of a cut text.
        if start < at or end > len(text):
            continue
        if start > at:
            yield Piece(readable(text[at:start]))
        yield Piece(readable(text[start:end]), value)
        at = end
    if at < len(text):
        yield Piece(readable(text[at:]))
