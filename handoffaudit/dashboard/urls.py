"""The addresses below `/t/<tenant>/`."""

from django.urls import path

from handoffaudit.dashboard import (
    deciding,
    handoff,
    handoffs,
    overview,
    review,
    rules,
    schemas,
    settings,
    strictness,
    theme,
    trials,
)

app_name = "dashboard"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("theme/", theme.theme, name="theme"),
    *handoffs.urlpatterns,
    *review.urlpatterns,
    *deciding.urlpatterns,
    *handoff.urlpatterns,
    *settings.urlpatterns,
    *strictness.urlpatterns,
    *rules.urlpatterns,
    *schemas.urlpatterns,
    *trials.urlpatterns,
]
