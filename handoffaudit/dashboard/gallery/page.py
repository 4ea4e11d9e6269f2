"""`gallery/`: what pages are made of, to look at and to copy from."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.alerts import Told
from handoffaudit.dashboard.gallery import drawings, tokens
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.templatetags.icons import STROKED
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Alert, Handoff, State
from handoffaudit.validation.issues import Severity


@dataclass(frozen=True, slots=True)
class Said:
    """A message as the framework gives it to `components/messages.html`."""

    level_tag: str
    text: str

    def __str__(self) -> str:
        return self.text


MESSAGES = (
    Said("success", "Approved. The sender has been told."),
    Said("warning", "2 of 14 were left out: somebody else decided them first."),
    Said("error", "Approving what was rejected needs a note."),
    Said("info", "A trial of this draft runs: 40 of 200 handoffs are judged."),
)


@page_for(Role.VIEWER)
def gallery(request: HttpRequest, who: Who) -> HttpResponse:
    now = timezone.now()
    context: dict[str, Any] = {
        "colours": tokens.colours(),
        "sizes": tokens.sizes(),
        "icons": sorted(STROKED),
        "states": [state.value for state in State],
        "severities": [severity.value for severity in Severity],
        "several": ["chain.circular", "grounding.number", "grounding.name", "chain.needs_approval"],
        "said": MESSAGES,
        "bad": FilterError("since", "yesterday", "use a number of hours or days, e.g. 24h or 7d."),
        "told": [_alert(who, now - timedelta(hours=5))],
        "held": Handoff(pk=UUID(int=0), tenant=who.tenant, state=State.HELD.value, version=1),
        "taken": RetentionRun(removed_before=now - timedelta(days=90), removed_at=now, removed_days=90),
        "moment": now - timedelta(hours=3),
        "drawings": drawings.examples(),
        "here": reverse("dashboard:gallery", args=[who.tenant.slug]),
        **drawings.charts(),
    }
    return render_page(request, "dashboard/gallery/page.html", context)


def _alert(who: Who, opened_at: Any) -> Told:
    alert = Alert(pk=0, tenant=who.tenant, kind="held_old", level="warning", opened_at=opened_at, last_at=opened_at)
    return Told(
        alert,
        "6 handoffs wait longer than their limit",
        "Nobody has decided them; their senders still wait.",
        reverse("dashboard:review", args=[who.tenant.slug]),
        "Decide them",
    )


urlpatterns = [path("gallery/", gallery, name="gallery")]
