from django.apps import AppConfig


class HandoffsConfig(AppConfig):
    name = "handoffaudit.handoffs"
    label = "handoffs"
