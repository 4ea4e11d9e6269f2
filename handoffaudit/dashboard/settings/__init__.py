"""The pages of Settings: people, keys, webhooks, alerts and the audit log."""

from handoffaudit.dashboard.settings import alerts, audit, keys, people, webhooks

urlpatterns = [
    *people.urlpatterns,
    *keys.urlpatterns,
    *webhooks.urlpatterns,
    *alerts.urlpatterns,
    *audit.urlpatterns,
]
