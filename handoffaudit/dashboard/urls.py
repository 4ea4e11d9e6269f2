"""The URL patterns below `/t/<tenant>/`."""

from django.urls import path

from handoffaudit.dashboard import (
    connect,
    exports,
    findings,
    gallery,
    help_pages,
    live,
    navigation,
    overview,
    search,
    selection,
    trace_page,
    traces,
    view_actions,
)
from handoffaudit.dashboard.agents import page as agents
from handoffaudit.dashboard.diagnostics import codes, compliance, files, llm_health, logs, reasons
from handoffaudit.dashboard.handoffs import comments, handoff_page
from handoffaudit.dashboard.handoffs import page as handoffs
from handoffaudit.dashboard.policies import base, cases, dry_runs, prompts, rules, schemas, strictness
from handoffaudit.dashboard.review import bulk, decide
from handoffaudit.dashboard.review import page as review
from handoffaudit.dashboard.settings import accounts, alerts, audit, removal, retention, webhooks

app_name = "dashboard"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("theme/", navigation.theme, name="theme"),
    *navigation.preference_urls,
    *search.urlpatterns,
    *handoffs.urlpatterns,
    *selection.urlpatterns,
    *exports.urlpatterns,
    *exports.evidence_urls,
    *live.urlpatterns,
    *view_actions.saved_view_urls,
    *view_actions.default_view_urls,
    *review.urlpatterns,
    *review.live_urls,
    *bulk.urlpatterns,
    *decide.urlpatterns,
    *handoff_page.urlpatterns,
    *comments.urlpatterns,
    *accounts.people_urls,
    *accounts.key_urls,
    *webhooks.urlpatterns,
    *alerts.urlpatterns,
    *retention.urlpatterns,
    *removal.urlpatterns,
    *audit.urlpatterns,
    *strictness.urlpatterns,
    *rules.urlpatterns,
    *schemas.urlpatterns,
    *prompts.urlpatterns,
    *cases.urlpatterns,
    *dry_runs.urlpatterns,
    *base.history_urls,
    *reasons.urlpatterns,
    *files.urlpatterns,
    *logs.urlpatterns,
    *compliance.urlpatterns,
    *codes.overturn_rate_urls,
    *codes.urlpatterns,
    *llm_health.urlpatterns,
    *traces.urlpatterns,
    *trace_page.urlpatterns,
    *agents.urlpatterns,
    *gallery.urlpatterns,
    *findings.urlpatterns,
    *connect.urlpatterns,
    *help_pages.urlpatterns,
]
