"""The claims of a verdict beside what they rest on, with their values marked in the text."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handoffaudit.dashboard.places import anchor, parts_of
from handoffaudit.dashboard.readable import cut, readable, weight

MOST_CLAIMS = 30
MOST_TEXT = 6_000
MOST_EXCERPT = 300
MOST_WEIGHT = 10_000
MOST_NAME = 80
MOST_VALUES = 60
MOST_UNUSED = 20
MOST_WHERE = 3
TYPES = {
    "cited": "cited",
    "assumption": "assumption",
    "uncited": "no source named",
    "derived": "a number",
}
STATUSES = ("ungrounded", "derived", "grounded")
WORDS = {"ungrounded": "in no source", "derived": "follows from sources", "grounded": "in a source"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a claim. `number` joins its mark in the text and its line in the list."""

    number: int
    kind: str
    status: str
    words: str
    text: str
    where: tuple[str, ...]
    more: int
    closest: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a claim's text, or a value in it."""

    text: str
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """A source that a claim cites; `excerpt` is empty where it was not supplied."""

    source: str
    excerpt: str
    is_known: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """One claim. `left_out`: so many characters of its text are not shown."""

    claim_id: str
    field_path: str
    anchor: str
    claim_type: str
    type_words: str
    pieces: tuple[Piece, ...]
    left_out: int
    values: tuple[Value, ...]
    cited: tuple[Cited, ...]

    @property
    def is_open(self) -> bool:
        """Whether somebody should look: a value is in no source, or no source is named."""
        return self.claim_type == "uncited" or any(value.status == "ungrounded" for value in self.values)


@dataclass(frozen=True, slots=True)
class Claims:
    shown: tuple[Shown, ...]
    hidden: int
    totals: tuple[tuple[str, str, int], ...]
    unused: tuple[Cited, ...]


def claims_of(content: Mapping[str, Any] | None, document: Any, evidence: Sequence[Any]) -> Claims | None:
    """The claims of a verdict's content; None where it has none. `document` has the whole texts."""
    claims = (content or {}).get("claims") or []
    if not claims:
        return None
    known = dict(_known(evidence))
    everything = sorted((_shown(claim, document, known) for claim in claims), key=lambda claim: not claim.is_open)
    counted = Counter(value["status"] for claim in claims for value in claim["values"])
    totals = tuple((status, WORDS[status], counted[status]) for status in STATUSES if status in counted)
    cited = {name for claim in claims for name in claim["evidence_ids"]}
    unused = [Cited(cut(name, MOST_NAME), text, is_known=True) for name, text in known.items() if name not in cited]
    shown = tuple(_light(everything))
    return Claims(shown, len(everything) - len(shown), totals, tuple(unused[:MOST_UNUSED]))


def _light(claims: Iterable[Shown]) -> Iterable[Shown]:
    """As many as one page shows; at least one."""
    heavy = 0
    for number, claim in enumerate(claims):
        heavy += sum(weight(piece.text) for piece in claim.pieces)
        heavy += sum(weight(value.text) + sum(map(weight, value.where)) for value in claim.values)
        if number and (heavy > MOST_WEIGHT or number == MOST_CLAIMS):
            return
        yield claim


def _known(evidence: Sequence[Any]) -> Iterable[tuple[str, str]]:
    for item in evidence:
        if isinstance(item, dict) and isinstance(item.get("source"), str):
            yield item["source"], _excerpt(item.get("content"))


def _excerpt(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return cut(text, MOST_EXCERPT)


def _shown(claim: Mapping[str, Any], document: Any, known: Mapping[str, str]) -> Shown:
    whole = _whole(claim, document)
    spans = claim["values"][:MOST_VALUES]
    values = tuple(_value(number, value) for number, value in enumerate(spans, 1))
    text = whole[: MOST_TEXT if weight(whole[:MOST_TEXT]) < MOST_WEIGHT else MOST_NAME]
    return Shown(
        claim_id=claim["claim_id"],
        field_path=cut(claim["field_path"], 160),
        anchor=anchor(claim["json_pointer"]),
        claim_type=claim["claim_type"],
        type_words=TYPES.get(claim["claim_type"], claim["claim_type"]),
        pieces=tuple(_pieces(text, spans, values)),
        left_out=len(whole) - len(text),
        values=tuple(sorted(values, key=lambda value: STATUSES.index(value.status))),
        cited=tuple(
            Cited(cut(name, MOST_NAME), known.get(name, ""), name in known)
            for name in claim["evidence_ids"][:MOST_UNUSED]
        ),
    )


def _whole(claim: Mapping[str, Any], document: Any) -> str:
    """The claim's whole text from the document; what the verdict keeps of it where that is not to be had."""
    part = document
    for key in parts_of(claim["json_pointer"]):
        if isinstance(part, list):
            part = part[int(key)] if key.isdigit() and int(key) < len(part) else None
        else:
            part = part.get(key) if isinstance(part, dict) else None
    kept: str = claim["claim_text"]
    return part if isinstance(part, str) and part.startswith(kept) else kept


def _value(number: int, value: Mapping[str, Any]) -> Value:
    where = value["where"]
    return Value(
        number=number,
        kind=value["kind"],
        status=value["status"],
        words=WORDS.get(value["status"], value["status"]),
        text=cut(value["text"], 120),
        where=tuple(cut(name, 160) for name in where[:MOST_WHERE]),
        more=max(len(where) - MOST_WHERE, 0),
        closest=cut(value["closest"], 80),
    )


def _pieces(text: str, spans: Sequence[Mapping[str, Any]], values: Sequence[Value]) -> Iterable[Piece]:
    at = 0
    for span, value in sorted(zip(spans, values, strict=True), key=lambda pair: pair[0]["start"]):
        start, end = span["start"], span["end"]
        # One value may lie in another, and a text may be cut: the first one is marked.
        if start < at or end > len(text):
            continue
        if start > at:
            yield Piece(readable(text[at:start]))
        yield Piece(readable(text[start:end]), value)
        at = end
    if at < len(text):
        yield Piece(readable(text[at:]))
