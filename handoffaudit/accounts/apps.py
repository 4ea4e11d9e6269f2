from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "handoffaudit.accounts"
    label = "accounts"

    def ready(self) -> None:
        from handoffaudit.accounts import sign_in  # noqa: PLC0415 - models are loaded by then

        sign_in.record_changes()
