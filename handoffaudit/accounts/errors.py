"""What the accounts app refuses."""


class Refused(Exception):
    """A change that is not made. `field` names the input at fault (empty: none), `message` says what is wrong and
    what would be accepted; where a `remedy` is given apart, that is its second half, after what is `wrong`."""

    def __init__(self, wrong: str, field: str = "", remedy: str = "") -> None:
        self.message = f"{wrong}: {remedy}" if remedy else wrong
        super().__init__(self.message)
        self.wrong = wrong
        self.field = field
        self.remedy = remedy
