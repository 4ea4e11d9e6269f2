"""Sections of the handoff page and the review pane: document, evidence, chain, tokens, attempts and repair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.handoffs.claims import rests_on_results
from handoffaudit.dashboard.handoffs.document_tree import Bounds, Node, tree
from handoffaudit.dashboard.handoffs.verdict_findings import Finding, findings_of, parts_of, spots_of
from handoffaudit.drawing.chain import Chain, draw_chain, needs_fold
from handoffaudit.drawing.charts import Section, draw_token_sections
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs import attempts, compare, queries, repair_cases, repairs, tool_results, verdicts
from handoffaudit.handoffs.compare import Attempt
from handoffaudit.handoffs.models import Handoff, HandoffBody, State, ToolResult
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.verdicts import envelope_of
from handoffaudit.validation import formats
from handoffaudit.validation.diff import Change
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.repair import RepairStatus
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.tool_results import label_of

MOST_RESULTS = 2_000

WIDE = 800

PANE = 440

NARROW = 336

_ENDS_IN_PANE = 2

ASIDE = Bounds(nodes=40, weight=6_000)


def body_of(handoff: Handoff) -> HandoffBody:
    """Return the document that was sent, or a body with the JSON text `null` if retention removed the document."""
    return queries.body(handoff) or HandoffBody(handoff=handoff, original=b"null")


def parse_body(body: HandoffBody, of: str = "") -> Any:
    """Return the parsed document, or with `of`, the parsed `context` or `evidence`. None if absent or not parsable."""
    if not of:
        return parse_json(bytes(body.original))[0]
    raw = body.context if of == "context" else body.evidence
    return None if raw is None else orjson.loads(bytes(raw))


@dataclass(frozen=True, slots=True)
class Sources:
    """The evidence of a handoff. `searched` names the sources in the evidence, and the filled fields of the context."""

    evidence: Sequence[Any] = ()
    searched: Sequence[str] = ()


def sources_of(handoff: Handoff, body: HandoffBody, arrived: Any = None) -> Sources:
    """Return the sources of a handoff; `arrived` is the document if it is already parsed."""
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
    """Return the trace's tool results that are evidence, by label; none if the verdict rests on no tool result."""
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
    """Draw the chain for the review pane, which has little room: more agents are folded than on the handoff page."""
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

    `value` is None if the document cannot be read. `is_lifted` is true if the page shows the converted document,
    which was judged in place of the document that arrived.
    """

    value: Any
    found: Sequence[Finding]
    is_lifted: bool = False


def choose_document(body: HandoffBody, content: Mapping[str, Any] | None) -> ShownDocument:
    """Return the document to show, with the findings of the verdict.

    The page shows the document that was judged, unless a deciding finding is about the document that arrived. For
    example, such a finding says that the handoff file of a report cannot be used. Another says that a document breaks
    the rules of its older version. The places of such findings are not in the converted document.
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


ACTIONS = {
    "retry": "Fix it and send it again",
    "re_retrieve": "Fetch the sources again, then send it again",
    "escalate": "A person must look",
    "insufficient_evidence": "Not enough evidence, and no tries are left",
    "accept": "Accepted without a finding: nothing to do",
    "accept_with_warnings": "Accepted with warnings: nothing to fix",
}

REASONS = {
    "critical_severity": "a critical finding",
    "remediation_exhausted": "no tries are left",
    "repair_failed": "all three tries to repair it failed",
}

STATUS_WORDS = {
    RepairStatus.NOT_NEEDED: "There is nothing to repair.",
    RepairStatus.NOT_POSSIBLE: "No rule can repair this document.",
    RepairStatus.REPAIRED: "It can be repaired.",
    RepairStatus.ESCALATED: "No repair led to a document that can replace this one.",
}

# Texts for a repair in which no candidate passed, so that no new attempt replaced the handoff.
STORED_WORDS = {RepairStatus.ESCALATED: "The tries are stored, and the handoff is escalated to a person."}


@dataclass(frozen=True, slots=True)
class RepairStep:
    words: str
    at: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """The actions that the verdicts of a lineage have recommended so far, such as a retry or a look by a person."""

    state: str
    actions: tuple[RepairStep, ...]


def repair_request(log: RemediationLog | None) -> RepairRequest | None:
    """Return the recommended actions in the order of the verdicts; None if there are none."""
    if log is None or not log.actions_taken:
        return None
    return RepairRequest(log.state, tuple(_repair_step(taken) for taken in log.actions_taken))


def _repair_step(taken: Mapping[str, Any]) -> RepairStep:
    note = f"try {taken['attempt']}" if "attempt" in taken else REASONS.get(str(taken.get("reason")), "")
    action = str(taken["action"])
    return RepairStep(ACTIONS.get(action, action), parse_datetime(str(taken["timestamp"])), note)


def advice_of(handoff: Handoff, content: Mapping[str, Any] | None) -> str:
    """Return the recommended next action for a rejected handoff; an empty string for any other handoff."""
    action = (content or {}).get("recommended_action")
    if handoff.state != State.REJECTED or action is None:
        return ""
    log = (content or {}).get("remediation") or {}
    left = log.get("max_retries", 0) - log.get("retry_count", 0)
    more = f" After that, {pluralize(left, 'more try', 'more tries')} with these sources." if left > 0 else ""
    return f"Due next: {ACTIONS.get(action, action).lower()}.{more if action == 'retry' else ''}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two attempts to compare; `is_chosen` is true if the reader chose the two attempts."""

    before: Handoff
    after: Handoff
    result: Attempt
    is_chosen: bool


def lineage_context(
    request: HttpRequest, who: TenantMembership, shown: Handoff, verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the context for the attempts: the lineage, the recommended actions, and whether this person can repair."""
    lineage = compare.compare_attempts(shown)
    asked = repair_request(attempts.load_record(shown))
    advice = advice_of(shown, verdict)
    can_repair = shown.state == State.REJECTED and not shown.is_unreadable and who.may(Role.REVIEWER)
    return {
        "lineage": lineage,
        "compared": _compare(request, lineage),
        "attempts": [one.handoff for one in reversed(lineage) if one.handoff.attempt < shown.attempt],
        "later": attempts.later_attempt(shown),
        "asked": asked,
        "advice": advice,
        "can_repair": can_repair,
        "has_lineage": bool(len(lineage) > 1 or asked or advice or can_repair),
    }


def _compare(request: HttpRequest, lineage: Sequence[Attempt]) -> Comparison | None:
    """Compare the two attempts that the address names, or preselect the first and the last; None for one attempt."""
    known = {str(one.handoff.pk): one.handoff for one in lineage}
    before, after = known.get(request.GET.get("from", "")), known.get(request.GET.get("to", ""))
    if before and after:
        return Comparison(before, after, compare.compare_pair(before, after), is_chosen=True)
    if len(lineage) < 2:
        return None
    first, last = lineage[0].handoff, lineage[-1].handoff
    return Comparison(first, last, Attempt(last), is_chosen=False)


@require_role(Role.REVIEWER)
@require_http_methods(["GET", "HEAD", "POST"])
def repair(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Preview the repair of a rejected handoff; a POST stores the result as new attempts."""
    shown = handoff_or_404(who, pk)
    if shown.state != State.REJECTED:
        messages.info(request, f"This handoff is {shown.state}: only rejected handoffs can be repaired.")
        return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)
    if request.method == "POST":
        return _store(request, who, shown)
    result = repairs.make_candidates(repair_cases.case_of_stored(shown))
    context = {"handoff": shown, "result": result, "words": STATUS_WORDS[result.status]}
    return render(request, "dashboard/handoff/repair.html", context)


def _store(request: HttpRequest, who: TenantMembership, shown: Handoff) -> HttpResponse:
    try:
        result = repairs.repair_stored(handoff=shown, actor=Actor.person(who.person))
    except repairs.NotRepairable as error:
        messages.error(request, str(error))
        return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)
    later = attempts.later_attempt(queries.get(who.tenant, str(shown.pk)))
    if result.repaired and later:
        message = f"Stored as attempt {later.attempt}, which is {later.state}. See under Attempts what repair changed."
        messages.success(request, message)
    else:
        came_to = STORED_WORDS.get(result.status, result.why)
        messages.warning(request, f"{STATUS_WORDS[result.status]} {came_to}".strip())
    return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=(later or shown).pk)


# The page shows at most this many differences; the API returns at most `diff.MOST_CHANGES`.
MOST_DIFFERENCES = 50


@dataclass(frozen=True, slots=True)
class Pair:
    """The handoff `shown` compared with `passed`, which is usually accepted; `result` has the differences."""

    passed: Handoff
    shown: Handoff
    result: Attempt

    @classmethod
    def of(cls, passed: Handoff, shown: Handoff) -> "Pair":
        names = (f"the {passed.state} handoff", "this handoff")
        return cls(passed, shown, compare.compare_pair(passed, shown, names))

    @property
    def is_same_trace(self) -> bool:
        return bool(self.shown.trace_id) and self.shown.trace_id == self.passed.trace_id

    @property
    def changes(self) -> Sequence[Change]:
        return self.result.changed.changes[:MOST_DIFFERENCES] if self.result.changed else ()

    @property
    def has_more(self) -> bool:
        changed = self.result.changed
        return changed is not None and (len(changed.changes) > MOST_DIFFERENCES or not changed.complete)


urlpatterns = [path("handoffs/<uuid:pk>/repair/", repair, name="handoff_repair")]
