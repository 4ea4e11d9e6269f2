from django.apps import AppConfig


class DiagnosticsConfig(AppConfig):
    name = "handoffaudit.diagnostics"
    label = "diagnostics"

    def ready(self) -> None:
        from handoffaudit.diagnostics.groups import membership  # noqa: PLC0415 -- needs the apps loaded
        from handoffaudit.handoffs import filters  # noqa: PLC0415

        filters.set_group_members(membership.members)
