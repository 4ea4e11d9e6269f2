"""How a command ends early."""


class Stop(Exception):
    """`message`: one line that says what is wrong and what to do. `code`: 1 refused, 2 usage or unreadable."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
