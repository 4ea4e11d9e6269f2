from django.apps import AppConfig


class DiagnosticsConfig(AppConfig):
    name = "handoffaudit.diagnostics"
    label = "diagnostics"

    def ready(self) -> None:
        from handoffaudit.diagnostics.groups import belonging  # noqa: PLC0415 -- needs the apps loaded
        from handoffaudit.handoffs import grouping  # noqa: PLC0415

        grouping.found_by(belonging.members)
