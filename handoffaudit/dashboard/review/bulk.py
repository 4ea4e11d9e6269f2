"""Decisions on several handoffs: the forecast, the confirmation, and the result in chunks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.review.decide import (
    MOST_UNTYPED,
    Forecast,
    count_needing_note,
    decision_of,
    forecast,
    is_version,
)
from handoffaudit.dashboard.review.queue import QueueFilters, selection_of
from handoffaudit.dashboard.selection import Selection, refuse
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.review import base, bulk, decisions, undo
from handoffaudit.handoffs.review.bulk import BulkDecision, Refusal
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor

CONFIRM = "dashboard/review/confirm.html"

RESULT = "dashboard/review/result.html"

MOST_SELECTED = bulk.MOST_PER_REQUEST

# The form between two chunks carries at most this many reasons of refusals. Other refusals count as `OTHER_REASONS`.
MOST_REASONS = 20

OTHER_REASONS = "Refused for other reasons."

_DONE = {
    Decision.APPROVE: "approved",
    Decision.DECLINE: "declined",
    Decision.RESEND: "declined, with a request to send again",
    Decision.HANDLED: "marked as handled",
}

# No handoff is from before the year 2000. Dates near the year 1 can lie outside the range of `datetime` in UTC.
FIRST_YEAR = 2000


@dataclass(frozen=True, slots=True)
class Selected:
    """The handoffs that a bulk decision applies to.

    `selected` holds pairs of a handoff id and the version that the reviewer saw. If `seen_at` is set, the decision
    instead applies to every handoff that matched `queue_filters` at that time. The short hash of the handoff must also
    be in `shown`, the text of `Matching.shown`.
    """

    queue_filters: QueueFilters
    selected: list[tuple[str, int]] = field(default_factory=list)
    seen_at: datetime | None = None
    shown: str = ""


@dataclass(slots=True)
class BulkSummary:
    """The results so far of a bulk decision on `number` handoffs.

    `undoable` holds `<id>:<version>` of each changed handoff, with the version after the change.
    """

    number: int = 0
    effective: int = 0
    proposed: int = 0
    refused: list[Refusal] = field(default_factory=list)
    undoable: list[str] = field(default_factory=list)

    @property
    def visited(self) -> int:
        return self.effective + self.proposed + sum(one.number for one in self.refused)

    @property
    def may_undo(self) -> bool:
        """Return whether the page can offer to undo every change; the page carries only `MOST_SELECTED` ids."""
        return 0 < self.effective + self.proposed == len(self.undoable)

    def add(self, done: BulkDecision) -> None:
        self.effective += done.effective
        self.proposed += done.proposed
        room = MOST_SELECTED - len(self.undoable)
        self.undoable += [f"{one.pk}:{one.version}" for one in done.handoffs][:room]
        for one in done.refused:
            self._add_refusal(one)

    def _add_refusal(self, added: Refusal) -> None:
        places = {known.reason: at for at, known in enumerate(self.refused)}
        if added.reason not in places and len(places) >= MOST_REASONS:
            added = Refusal(OTHER_REASONS, added.number, [])
        if added.reason in places:
            known = self.refused[places[added.reason]]
            self.refused[places[added.reason]] = replace(known, number=known.number + added.number)
        else:
            self.refused.append(added)

    @property
    def carried(self) -> str:
        """Return the summary as JSON for the form that requests the next chunk.

        The server stores nothing between chunks, so the page carries the totals.
        """
        return orjson.dumps(
            {
                "number": self.number,
                "effective": self.effective,
                "proposed": self.proposed,
                "refused": [[one.reason, one.number, one.references] for one in self.refused],
                "undoable": self.undoable,
            }
        ).decode()


@require_role(Role.REVIEWER)
@require_POST
def several(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the forecast for the selected handoffs and ask for confirmation, without deciding anything."""
    return _confirm(request, who, timezone.now())


@require_role(Role.REVIEWER)
@require_POST
def several_of_traces(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the forecast for those handoffs of the selected traces that wait for a person; ask for confirmation."""
    try:
        rows = Selection.of_handoffs(request, who, Q(state__in=REVIEWABLE)).rows
    except FilterError as bad:
        return refuse(request, "traces", bad)
    chosen = Selected(QueueFilters(), selected=_pairs(list(rows)))
    return _confirm(request, who, timezone.now(), chosen=chosen)


@require_safe
@require_role(Role.REVIEWER)
def several_all(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the forecast for all handoffs that match the filters and ask for confirmation."""
    return _confirm(request, who, timezone.now(), is_all=True)


@require_role(Role.REVIEWER)
@require_POST
def several_run(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Decide one chunk of the handoffs; the result page requests the next chunk by itself or with a button."""
    decision = decision_of(request)
    try:
        chosen = _read_selection(request)
        if decision is None or not (chosen.selected or chosen.seen_at):
            return _confirm(request, who, timezone.now())
        if lacking := _lacks_note(request, who, chosen, decision) or _lacks_number(request, who, chosen):
            return _confirm(request, who, timezone.now(), lacking=lacking)
        summary = _previous_summary(request)
        done = _run(request, who, chosen, decision)
    except FilterError as bad:
        context = {"bad": bad, "section": "review", "queue_filters": QueueFilters()}
        return render_page(request, CONFIRM, context, status=400)
    except base.NoteTooLong as refused:
        return _confirm(request, who, timezone.now(), lacking={"error": refused.message})
    except base.ReviewError as refused:
        return render_page(
            request,
            CONFIRM,
            {"refused": refused, "section": "review", "queue_filters": chosen.queue_filters},
            status=400,
        )
    summary.add(done)
    context = {
        "section": "review",
        "summary": summary,
        "decision": decision,
        "state": _DONE[decision],
        "chosen": chosen,
        "queue_filters": chosen.queue_filters,
        "note": request.POST.get("note", ""),
        "next": done.next,
    }
    return render_page(request, RESULT, context)


@require_role(Role.REVIEWER)
@require_POST
def several_undo(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Undo a bulk decision, at most `UNDO_MINUTES` old, on every handoff that has not changed since."""
    references = _pairs(request.POST.getlist("undo"))[:MOST_SELECTED]
    results = undo.undo_changes(tenant=who.tenant, references=references, actor=Actor.person(who.person))
    summary = BulkSummary(number=len(results))
    summary.add(bulk.summarize(results))
    summary.undoable = []
    context = {
        "section": "review",
        "summary": summary,
        "is_undone": True,
        "queue_filters": QueueFilters.or_all(request).first_page(),
    }
    return render_page(request, RESULT, context)


def _run(request: HttpRequest, who: TenantMembership, chosen: Selected, decision: Decision) -> BulkDecision:
    note, actor = request.POST.get("note", ""), Actor.person(who.person)
    if chosen.seen_at:
        selection = selection_of(who, chosen.queue_filters, chosen.seen_at)
        return bulk.decide_matching(
            tenant=who.tenant,
            selection=replace(selection, shown=_read_shown(chosen)),
            decision=decision,
            note=note,
            actor=actor,
            cursor=request.POST.get("from", ""),
        )
    results = decisions.decide_many(
        tenant=who.tenant, references=chosen.selected, decision=decision, note=note, actor=actor
    )
    return bulk.summarize(results, decision=decision)


def _lacks_note(request: HttpRequest, who: TenantMembership, chosen: Selected, decision: Decision) -> dict[str, str]:
    """Return an error if the decision is to approve handoffs that need a note, and the note is missing; else empty.

    Only the first chunk is checked, before any handoff is decided.
    """
    if decision is not Decision.APPROVE or request.POST.get("note", "").strip() or request.POST.get("from"):
        return {}
    number = count_needing_note(who, _find_matching(who, chosen).ids)
    error = f"Say why you approve rejected handoffs ({number:,}). Nothing was decided yet."
    return {"error": error} if number else {}


def _lacks_number(request: HttpRequest, who: TenantMembership, chosen: Selected) -> dict[str, str]:
    """Return an error if the reviewer must type the number of handoffs and has not. Check only the first chunk."""
    if request.POST.get("from"):
        return {}
    number, typed = len(_find_matching(who, chosen).ids), request.POST.get("typed", "")
    if number <= MOST_UNTYPED or "".join(sign for sign in typed if sign not in ",. ") == str(number):
        return {}
    error = f"Type {number:,} to confirm the number; {typed[:40]!r} was typed. Nothing was decided yet."
    return {"wrong_number": error}


def _confirm(
    request: HttpRequest,
    who: TenantMembership,
    now: datetime,
    *,
    is_all: bool = False,
    chosen: Selected | None = None,
    lacking: Mapping[str, str] = MappingProxyType({}),
) -> HttpResponse:
    """Render the confirmation page for all handoffs in the filtered queue, for `chosen`, or for the form's selection.

    `lacking` says what is wrong with the note (`error`) or with the typed number (`wrong_number`).
    """
    context: dict[str, Any] = {"section": "review", "decision": decision_of(request), **lacking}
    context["note"] = request.POST.get("note", "")
    try:
        if is_all:
            chosen = Selected(QueueFilters.of(request).first_page(), seen_at=now)
        chosen = chosen or _read_selection(request)
        chosen, found = _forecast(who, chosen)
    except FilterError as bad:
        return render_page(request, CONFIRM, {**context, "bad": bad, "queue_filters": QueueFilters()}, status=400)
    status = 200 if found.number and not lacking else 400
    return render_page(
        request,
        CONFIRM,
        {**context, "chosen": chosen, "queue_filters": chosen.queue_filters, "forecast": found},
        status=status,
    )


def _forecast(who: TenantMembership, chosen: Selected) -> tuple[Selected, Forecast]:
    found = _find_matching(who, chosen)
    most = bulk.MOST_AT_ONCE if chosen.seen_at else MOST_SELECTED
    chosen = replace(chosen, shown=found.shown) if chosen.seen_at else chosen
    return chosen, forecast(who, found.ids, is_more=found.more, most=most)


def _find_matching(who: TenantMembership, chosen: Selected) -> bulk.Matching:
    if chosen.seen_at:
        return bulk.count_matching(who.tenant, selection_of(who, chosen.queue_filters, chosen.seen_at))
    ids = [pk for reference, _ in chosen.selected[: MOST_SELECTED + 1] if (pk := _uuid(reference))]
    return bulk.Matching(ids[:MOST_SELECTED], more=len(chosen.selected) > MOST_SELECTED)


def _read_selection(request: HttpRequest) -> Selected:
    """Read the selection from the form; raise `FilterError` for values that cannot be read."""
    queue_filters = QueueFilters.of(request).first_page()
    text = request.POST.get("seen_at", "")
    if not text:
        return Selected(queue_filters, selected=_pairs(request.POST.getlist("select"))[: MOST_SELECTED + 1])
    try:
        seen_at = parse_datetime(text)
    except ValueError:
        seen_at = None
    if seen_at is None or seen_at.tzinfo is None or seen_at.year < FIRST_YEAR:
        raise FilterError("seen_at", text[:40], "begin again at the queue.")
    # The reviewer cannot have seen handoffs that arrive after this moment.
    return Selected(queue_filters, seen_at=min(seen_at, timezone.now()), shown=request.POST.get("shown", ""))


def _read_shown(chosen: Selected) -> frozenset[bytes]:
    """Return the short hashes of the handoffs that the reviewer saw. Raise `FilterError` for an unreadable text."""
    try:
        return bulk.parse_shown(chosen.shown)
    except ValueError:
        raise FilterError("shown", chosen.shown[:40], "begin again at the queue.") from None


def _previous_summary(request: HttpRequest) -> BulkSummary:
    """Return the results of the earlier chunks from the form; raise `FilterError` for values that cannot be read.

    These numbers are only shown to the person who sent them; no decision depends on them.
    """
    text = request.POST.get("summary", "")
    if not text:
        return BulkSummary(number=int(number) if is_version(number := request.POST.get("number", "")) else 0)
    try:
        values = orjson.loads(text)
        return BulkSummary(
            number=int(values["number"]),
            effective=int(values["effective"]),
            proposed=int(values["proposed"]),
            refused=[
                Refusal(str(reason), int(number), list(map(str, which))) for reason, number, which in values["refused"]
            ],
            undoable=list(map(str, values["undoable"]))[:MOST_SELECTED],
        )
    except (ValueError, TypeError, KeyError, OverflowError):
        raise FilterError("summary", text[:40], "begin again at the queue.") from None


def _pairs(values: list[str]) -> list[tuple[str, int]]:
    """Split each `<id>:<version>` into a pair; values of another form are left out."""
    pairs = (value.partition(":") for value in values)
    return [(reference, int(version)) for reference, _, version in pairs if is_version(version)]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


urlpatterns = [
    path("review/several/", several, name="several"),
    path("traces/selected/decide/", several_of_traces, name="selected_decide"),
    path("review/several/all/", several_all, name="several_all"),
    path("review/several/run/", several_run, name="several_run"),
    path("review/several/undo/", several_undo, name="several_undo"),
]
