"""The Protocols that the engine calls and its caller implements."""

from typing import Protocol

from handoffaudit.validation.prompts.question import Answer, Question


class FileView(Protocol):
    """The sender's files, where the validator can see them."""

    def exists(self, path: str) -> bool | None:
        """Return whether the file exists, or None if its place may not be looked at.

        Raises OSError if the lookup failed.
        """
        ...


class FileStore(Protocol):
    """A writable place beside the sender's files."""

    def write(self, path: str, content: bytes) -> str | None:
        """Write a file, with its folders, and return the path to refer to it by (None: `path`).

        The path is built from values of the sender. Raises OSError if the file could not be written, or where the
        path leads out of the folders that may be written to.
        """
        ...


class Summarizer(Protocol):
    """An LLM that shortens texts."""

    def shorten(self, text: str, most: int) -> str | None:
        """Return the text in at most `most` characters, or None if no shorter text could be made."""
        ...


class LanguageModel(Protocol):
    """The caller's client of an LLM."""

    def ask(self, question: Question) -> Answer:
        """Return the answer, parsed by the question's own reader; blocks until the answer arrives.

        Raises `prompts.question.Unavailable` if no usable answer came.
        """
        ...
