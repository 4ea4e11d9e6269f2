"""The URL patterns of the Diagnostics pages."""

from handoffaudit.dashboard.diagnostics import alerts, codes, compliance, files, llm_health, logs, reasons

urlpatterns = [
    *reasons.urlpatterns,
    *files.urlpatterns,
    *logs.urlpatterns,
    *compliance.urlpatterns,
    *codes.overturn_rate_urls,
    *codes.urlpatterns,
    *alerts.urlpatterns,
    *llm_health.urlpatterns,
]
