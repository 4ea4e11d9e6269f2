"""The protocols that callers of the engine implement."""

from typing import Protocol

from handoffaudit.validation.prompts.question import Answer, Question


class FileView(Protocol):
    """The sender's files, if the validator can see them."""

    def exists(self, path: str) -> bool | None:
        """Return whether the file exists, or None if the path is outside the allowed folders.

        Raises OSError if the lookup failed.
        """
        ...


class FileStore(Protocol):
    """A writable place beside the sender's files."""

    def write(self, path: str, content: bytes) -> str | None:
        """Write a file with its folders. Return the path that references should use, or None for `path` itself.

        The path contains values of the sender. Raises OSError if the file could not be written, or if the path leads
        outside the allowed folders.
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
        """Wait for the answer and return it, parsed by the question's reader.

        Raises `prompts.question.Unavailable` if there is no usable answer.
        """
        ...
