"""Diagnostics by API: why handoffs were not what they should have been."""

from ninja import Router

from handoffaudit.api.diagnostics import alerts, files, logs, model, reports, traces

router = Router(tags=["Diagnostics"])
for part in (alerts.router, files.router, logs.router, model.router, reports.router, traces.router):
    router.add_router("", part)
