"""Tokens counted only where they can matter: loading the tokenizer takes longer than all else a command does."""

from importlib.util import find_spec

from handoffaudit.validation.tokenizers import ENCODING, TokenCounter, default_counter


class QuickCounter:
    """For output that shows no counts. No text has more tokens than bytes, so that one of no more bytes than the
    smallest budget is within it, whatever its count is; `count` then answers with the bytes. From the first longer text
    on all are counted by the tokenizer."""

    name = ENCODING
    estimated = False

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._real: TokenCounter | None = None

    def count(self, text: str) -> int:
        if self._real is None:
            size = len(text.encode("utf-8", "replace"))
            if size <= self._budget:
                return size
            self._real = default_counter()
        return self._real.count(text)


def quick_counter(budget: int) -> TokenCounter:
    """Without a tokenizer every count is an estimate, and the verdict says so."""
    return QuickCounter(budget) if find_spec("splintr") else default_counter()
