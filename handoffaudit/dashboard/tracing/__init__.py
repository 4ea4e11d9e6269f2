"""The pages of traces: their list, and one in whole."""

from handoffaudit.dashboard.tracing import trace, traces

urlpatterns = [*traces.urlpatterns, *trace.urlpatterns]
