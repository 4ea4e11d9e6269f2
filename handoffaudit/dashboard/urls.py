"""The addresses below `/t/<tenant>/`."""

from django.urls import path

from handoffaudit.dashboard import (
    agents,
    diagnostics,
    exports,
    first_run,
    gallery,
    groups,
    handoffs,
    live,
    overview,
    reviewing,
    settings,
    theme,
    tracing,
)
from handoffaudit.dashboard.handoff import page as handoff
from handoffaudit.dashboard.help import pages as help_pages
from handoffaudit.dashboard.policies.prompts import page as prompts
from handoffaudit.dashboard.policies.rules import page as rules
from handoffaudit.dashboard.policies.schemas import page as schemas
from handoffaudit.dashboard.policies.strictness import page as strictness
from handoffaudit.dashboard.policies.trials import page as trials
from handoffaudit.dashboard.saved import changing as saved_views
from handoffaudit.dashboard.saved import choosing

app_name = "dashboard"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("theme/", theme.theme, name="theme"),
    *handoffs.urlpatterns,
    *exports.urlpatterns,
    *live.urlpatterns,
    *saved_views.urlpatterns,
    *choosing.urlpatterns,
    *reviewing.urlpatterns,
    *handoff.urlpatterns,
    *settings.urlpatterns,
    *strictness.urlpatterns,
    *rules.urlpatterns,
    *schemas.urlpatterns,
    *prompts.urlpatterns,
    *trials.urlpatterns,
    *diagnostics.urlpatterns,
    *tracing.urlpatterns,
    *agents.urlpatterns,
    *gallery.urlpatterns,
    *groups.urlpatterns,
    *first_run.urlpatterns,
    *help_pages.urlpatterns,
]
