"""Sections that the handoff page and the review pane share: document, evidence, chain and tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson
from django.http import Http404

from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.handoffs.claims import rests_on_results
from handoffaudit.dashboard.handoffs.document_tree import Bounds, Node, tree
from handoffaudit.dashboard.handoffs.verdict_findings import Finding, findings_of, parts_of, spots_of
from handoffaudit.drawing.chain import Chain, draw_chain, needs_fold
from handoffaudit.drawing.charts import Section, draw_token_sections
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs import queries, tool_results, verdicts
from handoffaudit.handoffs.models import Handoff, HandoffBody, ToolResult
from handoffaudit.handoffs.verdicts import envelope_of
from handoffaudit.validation import formats
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.tool_results import label_of

MOST_RESULTS = 2_000

WIDE = 800

PANE = 440

NARROW = 336

_ENDS_IN_PANE = 2

ASIDE = Bounds(nodes=40, weight=6_000)


def body_of(handoff: Handoff) -> HandoffBody:
    """Return the document that was sent, or a body with the JSON text `null` where retention removed the document."""
    return queries.body(handoff) or HandoffBody(handoff=handoff, original=b"null")


def parse_body(body: HandoffBody, of: str = "") -> Any:
    """Return the parsed document, `context` or `evidence`; None if it is absent or cannot be parsed."""
    if not of:
        return parse_json(bytes(body.original))[0]
    raw = body.context if of == "context" else body.evidence
    return None if raw is None else orjson.loads(bytes(raw))


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that claims may cite, in any format; `searched` names those sources and the fields of the context."""

    evidence: Sequence[Any] = ()
    searched: Sequence[str] = ()


def sources_of(handoff: Handoff, body: HandoffBody, arrived: Any = None) -> Sources:
    """Return the sources of a handoff; `arrived` is the document, where it is already parsed."""
    if arrived is None:
        record = verdicts.record_of(handoff, body)
    else:
        record = formats.read(arrived, handoff.format or None, envelope_of(handoff, body)).record
    if record is None:
        return Sources()
    fields = [f"context.{key}" for key, value in record.context.items() if value not in (None, "", [], {})]
    named = [item["source"] for item in record.evidence if isinstance(item, dict) and "source" in item]
    return Sources(record.evidence, [*fields, *(name for name in named if isinstance(name, str))])


def results_of(handoff: Handoff, verdict: Mapping[str, Any] | None) -> dict[str, ToolResult]:
    """Return the tool results of the trace by their labels, if a value of the verdict rests on one of them."""
    if not handoff.trace_id or not rests_on_results(verdict):
        return {}
    found = tool_results.list_results(handoff.tenant_id, handoff.trace_id, limit=MOST_RESULTS, only_evidence=True)
    return {label_of(row.tool, row.call_id): row for row in found}


def evidence_of(handoff: Handoff, body: HandoffBody) -> Sequence[Any]:
    return sources_of(handoff, body).evidence


def document_tree(value: Any, found: Sequence[Finding]) -> Node:
    return tree(value, spots_of(found))


def aside_trees(body: HandoffBody) -> dict[str, Node]:
    """Return the trees of the context and the evidence that came with the document."""
    given = {name: parse_body(body, name) for name in ("context", "evidence")}
    return {name: tree(value, bounds=ASIDE) for name, value in given.items() if value}


def chain_drawings(facts: Mapping[str, Any] | None, href: str, *, is_full: bool) -> dict[str, Drawing]:
    """Draw the chain wide, and narrow for small screens; a long chain shown in full is drawn wide only."""
    if not facts or not (facts["shown"] or facts["declared"]):
        return {}
    shown = Chain.of_verdict(facts)
    wide = draw_chain(shown, is_folded=not is_full, href=href, width=WIDE, prefix="chain-wide")
    if is_full and needs_fold(shown.agents):
        return {"wide": wide}
    return {
        "wide": wide,
        "narrow": draw_chain(shown, is_folded=not is_full, href=href, width=NARROW, prefix="chain-narrow"),
    }


def chain_in_pane(facts: Mapping[str, Any] | None, href: str) -> dict[str, Drawing]:
    """Draw the chain for the review pane, which has little room, with more agents folded."""
    if not facts or not (facts["shown"] or facts["declared"]):
        return {}
    shown = Chain.of_verdict(facts)
    return {
        name: draw_chain(shown, href=href, width=width, prefix=f"chain-{name}", ends=_ENDS_IN_PANE)
        for name, width in (("wide", WIDE), ("pane", PANE), ("narrow", NARROW))
    }


def token_drawings(counts: Mapping[str, Any] | None) -> dict[str, Drawing]:
    if not counts:
        return {}
    sections = [Section(each["name"], each["count"], each["target"]) for each in counts["sections"]]
    total, budget = counts["total"], counts["budget"]
    return {
        "wide": draw_token_sections(sections, total=total, budget=budget, width=640, prefix="tokens-wide"),
        "narrow": draw_token_sections(sections, total=total, budget=budget, width=NARROW, prefix="tokens-narrow"),
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
    """The document that the page shows.

    `value` is None if the document cannot be read. `is_lifted` is true if the page shows the document
    that was converted from the one that arrived, and that was judged in its place.
    """

    value: Any
    found: Sequence[Finding]
    is_lifted: bool = False


def choose_document(body: HandoffBody, content: Mapping[str, Any] | None) -> ShownDocument:
    """Return the document to show, with the findings of the verdict.

    The page shows the document that was judged, unless a deciding finding is about the document that arrived:
    a report that cannot be used, or a document that breaks the rules of its older version. Findings about the
    document that arrived have no place in the converted document.
    """
    found = findings_of(content)
    # The verdict already says whether the document is valid JSON and not too deep; checking that again costs more
    # than parsing.
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
    """Return whether the finding's place is in the document that arrived and not in the converted document."""
    place = parts_of(issue.pointer)
    if not place or _fits(lifted, place, issue.code):
        return False
    return _fits(arrived, place, issue.code) or (place[0] in arrived and place[0] not in lifted)


def _fits(document: Any, place: list[str], code: str) -> bool:
    """Return whether the finding fits the document: a missing field is absent there, any other place is present."""
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
