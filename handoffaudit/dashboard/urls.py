"""The URL patterns below `/t/<tenant>/`."""

from django.urls import path

from handoffaudit.dashboard import exports, findings, first_run, gallery, live, overview, theme
from handoffaudit.dashboard.agents import page as agents
from handoffaudit.dashboard.diagnostics import urls as diagnostics
from handoffaudit.dashboard.handoffs import handoff
from handoffaudit.dashboard.handoffs import page as handoffs
from handoffaudit.dashboard.help import page as help_pages
from handoffaudit.dashboard.policies import dry_runs, prompts, rules, schemas, strictness
from handoffaudit.dashboard.review import urls as review
from handoffaudit.dashboard.saved_views import actions as saved_views
from handoffaudit.dashboard.settings import urls as settings
from handoffaudit.dashboard.traces import page as traces

app_name = "dashboard"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("theme/", theme.theme, name="theme"),
    *handoffs.urlpatterns,
    *exports.urlpatterns,
    *live.urlpatterns,
    *saved_views.saved_view_urls,
    *saved_views.default_view_urls,
    *review.urlpatterns,
    *handoff.urlpatterns,
    *settings.urlpatterns,
    *strictness.urlpatterns,
    *rules.urlpatterns,
    *schemas.urlpatterns,
    *prompts.urlpatterns,
    *dry_runs.urlpatterns,
    *diagnostics.urlpatterns,
    *traces.urlpatterns,
    *agents.urlpatterns,
    *gallery.urlpatterns,
    *findings.urlpatterns,
    *first_run.urlpatterns,
    *help_pages.urlpatterns,
]
