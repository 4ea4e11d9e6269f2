"""Token counts of texts, from a real tokenizer if one is installed, or else estimated."""

import threading
from typing import Any, Final, Protocol

ENCODING = "o200k_base"

CHARACTERS_PER_TOKEN: Final = 4

# The name of the estimate in findings and repair notes.
ESTIMATE_FORMULA: Final = f"characters / {CHARACTERS_PER_TOKEN}"

# Every special token of the encoding begins with these characters.
_SPECIAL = "<|"

_BYTES_OF_ID = 4

# The vocabulary lacks this word, so the tokenizer must merge its parts.
_NO_WORD = "zxqvj"

# The specification fixes these words, although the tokenizer is splintr.
ESTIMATED_TEXT = "tiktoken unavailable. Using estimation."


class TokenCounter(Protocol):
    """A counter of the tokens in a text.

    `estimated` is true if the counts are estimated from the number of characters.
    """

    @property
    def name(self) -> str: ...
    @property
    def estimated(self) -> bool: ...
    def count(self, text: str) -> int: ...


def estimate(text: str) -> float:
    """Estimate the tokens from the number of characters, like senders without a tokenizer."""
    return len(text) / CHARACTERS_PER_TOKEN


class CharacterCounter:
    """A counter that rounds the estimate."""

    name = f"characters/{CHARACTERS_PER_TOKEN}"
    estimated = True

    def count(self, text: str) -> int:
        return round(estimate(text))


class SplintrCounter:
    """A counter with splintr's o200k_base encoding.

    The time is linear in the text: 0.2 s for a megabyte of the worst kind.
    """

    name = ENCODING
    estimated = False

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        try:
            return self._count(text)
        # The text contains a lone surrogate.
        except UnicodeEncodeError:
            return self._count(text.encode("utf-8", "replace").decode())

    def _count(self, text: str) -> int:
        # encode_flat builds no list of Python integers, but it interprets special tokens, which are plain text here.
        if _SPECIAL in text:
            return len(self._tokenizer.encode_ordinary(text))
        return len(self._tokenizer.encode_flat(text)) // _BYTES_OF_ID


_lock = threading.Lock()

_loaded: list[TokenCounter] = []


def default_counter() -> TokenCounter:
    """Return the best counter of this machine, loaded at the first call (about 0.15 s) and shared afterwards."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


def _load() -> TokenCounter:
    try:
        from splintr import Tokenizer  # noqa: PLC0415  (loads 22 MB, so only if tokens are counted)

        tokenizer = Tokenizer.from_pretrained(ENCODING)
        # The first word that must be merged makes the tokenizer build a table, which takes 80 ms once.
        tokenizer.encode_ordinary(_NO_WORD)
    except (ImportError, OSError, ValueError, RuntimeError):
        return CharacterCounter()
    return SplintrCounter(tokenizer)
