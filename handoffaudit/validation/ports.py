"""What the core calls out to, as Protocols that its caller implements."""

from typing import Protocol

from handoffaudit.validation.prompts.question import Answer, Question


class FileView(Protocol):
    """The sender's files, where the validator can see them."""

    def exists(self, path: str) -> bool | None:
        """Return whether there is such a file, None where its place may not be looked at. Raises OSError where it could
        not be looked up."""
        ...


class FileStore(Protocol):
    """A place beside the sender's files that can be written to."""

    def write(self, path: str, content: bytes) -> str | None:
        """Write a file, with its folders, and return the path to refer to it by (None: `path`).

        The path is made of what a sender sent.

        Raises OSError where it could not be written, or where the path leads out of the folders that may be written to.
        """
        ...


class Summarizer(Protocol):
    """A model that shortens texts."""

    def shorten(self, text: str, most: int) -> str | None:
        """The text in at most `most` characters, or None where it could not be had."""
        ...


class LanguageModel(Protocol):
    """Whoever asks a language model, with all that may go wrong on the way."""

    def ask(self, question: Question) -> Answer:
        """The answer, read by the question's own reader. Blocks until it is there.

        Raises `asking.question.Unavailable` where no usable answer came.
        """
        ...
