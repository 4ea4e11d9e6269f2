"""Token counts of a text: by a real tokenizer where one is installed, else estimated."""

import threading
from typing import Any, Protocol

ENCODING = "o200k_base"

# how each of its special tokens begins
_SPECIAL = "<|"

_BYTES_OF_ID = 4

# no word of its vocabulary, so that it must be merged
_NO_WORD = "zxqvj"

ESTIMATED_TEXT = "tiktoken unavailable. Using estimation."


class TokenCounter(Protocol):
    """`estimated`: the counts are characters / 4."""

    @property
    def name(self) -> str: ...
    @property
    def estimated(self) -> bool: ...
    def count(self, text: str) -> int: ...


def estimate(text: str) -> float:
    """Tokens as senders compute them who have no tokenizer: characters / 4."""
    return len(text) / 4


class CharacterCounter:
    """The estimate as a counter."""

    name = "characters/4"
    estimated = True

    def count(self, text: str) -> int:
        return round(estimate(text))


class SplintrCounter:
    """splintr's o200k_base. Linear in the text: 0.2 s for a megabyte of the worst kind."""

    name = ENCODING
    estimated = False

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        try:
            return self._count(text)
        except UnicodeEncodeError:  # a lone surrogate
            return self._count(text.encode("utf-8", "replace").decode())

    def _count(self, text: str) -> int:
        # encode_flat makes no list of Python integers, but reads special tokens, which are plain text here
        if _SPECIAL in text:
            return len(self._tokenizer.encode_ordinary(text))
        return len(self._tokenizer.encode_flat(text)) // _BYTES_OF_ID


_lock = threading.Lock()

_loaded: list[TokenCounter] = []


def default_counter() -> TokenCounter:
    """The best counter of this machine, loaded at the first call (about 0.15 s) and shared from then on."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


def _load() -> TokenCounter:
    try:
        from splintr import Tokenizer  # noqa: PLC0415  (loads 22 MB, so only where tokens are counted)

        tokenizer = Tokenizer.from_pretrained(ENCODING)
        # the first word that must be merged makes it build a table, which takes 80 ms once
        tokenizer.encode_ordinary(_NO_WORD)
    except (ImportError, OSError, ValueError, RuntimeError):
        return CharacterCounter()
    return SplintrCounter(tokenizer)
