from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "handoffaudit.accounts"
    label = "accounts"

    def ready(self) -> None:
        from handoffaudit.accounts import second_factor  # noqa: PLC0415 - models are loaded by then

        second_factor.record_changes()
