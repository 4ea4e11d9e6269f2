from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "handoffaudit.dashboard"
    label = "dashboard"
