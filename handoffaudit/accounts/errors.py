"""What the accounts app refuses."""


class Refused(Exception):
    """A change that is not made. `field` names the input at fault (empty: none), `message` says what is wrong and
    what would be accepted."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
