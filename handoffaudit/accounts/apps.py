from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "handoffaudit.accounts"
    label = "accounts"
