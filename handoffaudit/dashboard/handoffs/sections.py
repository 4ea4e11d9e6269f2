"""Sections that the handoff page and the review pane share: document, evidence, chain and tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson
from django.http import Http404

from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.handoffs.document_tree import Bounds, Node, tree
from handoffaudit.dashboard.handoffs.findings import Finding, findings_of, parts_of, spots_of
from handoffaudit.drawing.chain import Chain, chain, folds
from handoffaudit.drawing.svg import Drawing
from handoffaudit.drawing.tokens import Section, token_sections
from handoffaudit.handoffs import queries, verdicts
from handoffaudit.handoffs.models import Handoff, HandoffBody
from handoffaudit.handoffs.verdicts import envelope_of
from handoffaudit.validation import formats
from handoffaudit.validation.json_input import parse_json

WIDE = 800

PANE = 440

NARROW = 336

_ENDS_IN_PANE = 2

ASIDE = Bounds(nodes=40, weight=6_000)


def body_of(handoff: Handoff) -> HandoffBody:
    """What was sent; nothing at all, as JSON, where retention has removed it."""
    return queries.body(handoff) or HandoffBody(handoff=handoff, original=b"null")


def parse_body(body: HandoffBody, of: str = "") -> Any:
    """The document, or what was sent beside it (`context`, `evidence`); None where it can't be read or is not there."""
    if not of:
        return parse_json(bytes(body.original))[0]
    raw = body.context if of == "context" else body.evidence
    return None if raw is None else orjson.loads(bytes(raw))


@dataclass(frozen=True, slots=True)
class Sources:
    """What the claims may cite, wherever the format keeps it; `searched` names that, and the context's fields."""

    evidence: Sequence[Any] = ()
    searched: Sequence[str] = ()


def sources_of(handoff: Handoff, body: HandoffBody, arrived: Any = None) -> Sources:
    """`arrived`: the document, where it is parsed already."""
    if arrived is None:
        record = verdicts.record_of(handoff, body)
    else:
        record = formats.read(arrived, handoff.format or None, envelope_of(handoff, body)).record
    if record is None:
        return Sources()
    fields = [f"context.{key}" for key, value in record.context.items() if value not in (None, "", [], {})]
    named = [item["source"] for item in record.evidence if isinstance(item, dict) and "source" in item]
    return Sources(record.evidence, [*fields, *(name for name in named if isinstance(name, str))])


def evidence_of(handoff: Handoff, body: HandoffBody) -> Sequence[Any]:
    return sources_of(handoff, body).evidence


def document_tree(value: Any, found: Sequence[Finding]) -> Node:
    return tree(value, spots_of(found))


def aside_trees(body: HandoffBody) -> dict[str, Node]:
    """What was given beside the document."""
    given = {name: parse_body(body, name) for name in ("context", "evidence")}
    return {name: tree(value, bounds=ASIDE) for name, value in given.items() if value}


def chain_drawings(facts: Mapping[str, Any] | None, href: str, *, is_full: bool) -> dict[str, Drawing]:
    """Wide, and narrow for small screens; a chain opened in whole is drawn wide only."""
    if not facts or not (facts["shown"] or facts["declared"]):
        return {}
    shown = Chain.of_verdict(facts)
    wide = chain(shown, is_folded=not is_full, href=href, width=WIDE, prefix="chain-wide")
    if is_full and folds(shown.agents):
        return {"wide": wide}
    return {"wide": wide, "narrow": chain(shown, is_folded=not is_full, href=href, width=NARROW, prefix="chain-narrow")}


def chain_in_pane(facts: Mapping[str, Any] | None, href: str) -> dict[str, Drawing]:
    """The same for a pane beside others, where little room is left for what comes below: more is folded."""
    if not facts or not (facts["shown"] or facts["declared"]):
        return {}
    shown = Chain.of_verdict(facts)
    return {
        name: chain(shown, href=href, width=width, prefix=f"chain-{name}", ends=_ENDS_IN_PANE)
        for name, width in (("wide", WIDE), ("pane", PANE), ("narrow", NARROW))
    }


def token_drawings(counts: Mapping[str, Any] | None) -> dict[str, Drawing]:
    if not counts:
        return {}
    sections = [Section(each["name"], each["count"], each["target"]) for each in counts["sections"]]
    total, budget = counts["total"], counts["budget"]
    return {
        "wide": token_sections(sections, total=total, budget=budget, width=640, prefix="tokens-wide"),
        "narrow": token_sections(sections, total=total, budget=budget, width=NARROW, prefix="tokens-narrow"),
    }


def handoff_or_404(who: TenantMembership, pk: UUID) -> Handoff:
    try:
        return queries.get(who.tenant, str(pk))
    except Handoff.DoesNotExist as error:
        raise Http404("There is no such handoff.") from error


def parent_of(handoff: Handoff) -> Handoff | None:
    if not handoff.parent_handoff_id:
        return None
    try:
        return queries.get(handoff.tenant, handoff.parent_handoff_id)
    except Handoff.DoesNotExist:
        return None


_MISSING = "structure.missing_field"

_UNREADABLE = "structure.json_parse"

_BOM = b"\xef\xbb\xbf"

_LONGEST_POSITION = 9


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """`value` is None where what arrived can't be read; `is_lifted`: it was made of what arrived, and judged in its
    place."""

    value: Any
    found: Sequence[Finding]
    is_lifted: bool = False


def choose_document(body: HandoffBody, content: Mapping[str, Any] | None) -> ShownDocument:
    """The document with the issues of the verdict's content.

    It is the one that was judged, unless an issue that decides is about what arrived: a report that can't be used, a
    document that breaks the rules of its older version. Issues about what arrived have no place in what was judged.
    """
    found = findings_of(content)
    # A verdict on it knows whether it is JSON and not too deep: that costs more than reading it.
    is_read = content is not None and all(issue.code != _UNREADABLE for issue in found)
    arrived = orjson.loads(bytes(body.original).removeprefix(_BOM)) if is_read else parse_body(body)
    if body.lifted is None:
        return ShownDocument(arrived, found)
    lifted = orjson.loads(bytes(body.lifted))
    placed = [replace(issue, is_placed=not _is_about(arrived, lifted, issue)) for issue in found]
    if any(issue.decides and not issue.is_placed for issue in placed):
        return ShownDocument(arrived, found)
    return ShownDocument(lifted, placed, is_lifted=True)


def _is_about(arrived: Any, lifted: Any, issue: Finding) -> bool:
    """Whether its place is in what arrived, and not in what was made of it."""
    place = parts_of(issue.pointer)
    if not place or _fits(lifted, place, issue.code):
        return False
    return _fits(arrived, place, issue.code) or (place[0] in arrived and place[0] not in lifted)


def _fits(document: Any, place: list[str], code: str) -> bool:
    """Whether the issue can be of that document: what is missing is not there, and else the place is."""
    if code == _MISSING:
        return _has(document, place[:-1]) and not _has(document, place)
    return _has(document, place)


def _has(value: Any, place: Iterable[str]) -> bool:
    for part in place:
        match value:
            case dict() if part in value:
                value = value[part]
            case list() if part.isdecimal() and len(part) < _LONGEST_POSITION and int(part) < len(value):
                value = value[int(part)]
            case _:
                return False
    return True
