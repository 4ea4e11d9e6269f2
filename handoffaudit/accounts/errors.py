"""The error of the accounts app for changes that it refuses."""


class Refused(Exception):
    """A change that is not made.

    `field` names the input at fault (empty: none). `message` says what is wrong and what would be accepted. Where a
    `remedy` is given separately, `message` consists of `wrong` and `remedy`.
    """

    def __init__(self, wrong: str, field: str = "", remedy: str = "") -> None:
        self.message = f"{wrong}: {remedy}" if remedy else wrong
        super().__init__(self.message)
        self.wrong = wrong
        self.field = field
        self.remedy = remedy
