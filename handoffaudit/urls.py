"""URL mount points of the API, the dashboard, the help and the health checks."""

from django.urls import include, path

from handoffaudit.api.app import api
from handoffaudit.api.health import alive, metrics, ready
from handoffaudit.dashboard import security, sign_in
from handoffaudit.dashboard.diagnostics import codes
from handoffaudit.dashboard.sign_in import home

urlpatterns = [
    path("api/v1/", api.urls),
    path("", home, name="home"),
    path("healthz", alive, name="healthz"),
    path("readyz", ready, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("t/<slug:tenant>/", include("handoffaudit.dashboard.urls")),
    path("help/", include(codes.public_urls)),
    path("", include(sign_in.sign_in_urls)),
    path("", include(security.urlpatterns)),
]

handler400 = "handoffaudit.dashboard.access.answer_bad_request"
handler403 = "handoffaudit.dashboard.access.answer_forbidden"
handler404 = "handoffaudit.dashboard.access.answer_not_found"
handler500 = "handoffaudit.dashboard.access.answer_broken"
