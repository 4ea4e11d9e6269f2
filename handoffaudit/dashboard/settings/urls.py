"""The URL patterns of the Settings pages."""

from handoffaudit.dashboard.settings import alerts, audit, keys, people, retention, webhooks

urlpatterns = [
    *people.urlpatterns,
    *keys.urlpatterns,
    *webhooks.urlpatterns,
    *alerts.urlpatterns,
    *retention.urlpatterns,
    *audit.urlpatterns,
]
