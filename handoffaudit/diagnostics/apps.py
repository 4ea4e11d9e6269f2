from django.apps import AppConfig


class DiagnosticsConfig(AppConfig):
    name = "handoffaudit.diagnostics"
    label = "diagnostics"
