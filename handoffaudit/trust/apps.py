from django.apps import AppConfig


class TrustConfig(AppConfig):
    name = "handoffaudit.trust"
    label = "trust"
