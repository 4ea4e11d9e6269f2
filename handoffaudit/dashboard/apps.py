from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "handoffaudit.dashboard"
    label = "dashboard"

    def ready(self) -> None:
        from handoffaudit import checks  # noqa: F401, PLC0415 -- registers the system checks
