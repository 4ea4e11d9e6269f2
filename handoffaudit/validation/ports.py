"""What the core calls out to, as Protocols that its caller implements."""

from typing import Protocol


class FileView(Protocol):
    """The sender's files, where the validator can see them."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file. Raises OSError where it could not be looked up."""
        ...
