"""Accounts: tenants, people and their roles, API keys, one-time links, saved views and the audit log."""


class Refused(Exception):
    """The error for a change that the app refuses.

    `field` names the wrong input, and is empty if no single input is wrong. `message` says what is wrong and what would
    be accepted. If `remedy` is given, `message` consists of `wrong` and `remedy`.
    """

    def __init__(self, wrong: str, field: str = "", remedy: str = "") -> None:
        self.message = f"{wrong}: {remedy}" if remedy else wrong
        super().__init__(self.message)
        self.wrong = wrong
        self.field = field
        self.remedy = remedy
