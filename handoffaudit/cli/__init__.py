"""The command line: `main` has the entry point, and each command is a module."""


class Stop(Exception):
    """Early end of a command.

    `message` is one line that says what is wrong and what to do. `code` is 1 for a refusal or a failure, and 2 for a
    usage error or unreadable input.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
