"""The pages of Diagnostics: why handoffs were not what they should have been."""

from handoffaudit.dashboard.diagnostics import alerts, codes, compliance, files, logs, model, noise, reasons

urlpatterns = [
    *reasons.urlpatterns,
    *files.urlpatterns,
    *logs.urlpatterns,
    *compliance.urlpatterns,
    *noise.urlpatterns,
    *codes.urlpatterns,
    *alerts.urlpatterns,
    *model.urlpatterns,
]
