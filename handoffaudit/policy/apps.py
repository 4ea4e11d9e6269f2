from django.apps import AppConfig


class PolicyConfig(AppConfig):
    name = "handoffaudit.policy"
    label = "policy"
