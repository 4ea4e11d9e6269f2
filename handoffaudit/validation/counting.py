"""Tokens of a text: by a real tokenizer where one is installed, else estimated."""

import threading
from typing import Any, Protocol

ENCODING = "o200k_base"
ESTIMATED_TEXT = "tiktoken unavailable. Using estimation."


class Counter(Protocol):
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
            return len(self._tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:  # a lone surrogate
            return len(self._tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))


_lock = threading.Lock()
_loaded: list[Counter] = []


def default_counter() -> Counter:
    """The best counter of this machine, loaded at the first call (about 0.1 s) and shared from then on."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


def _load() -> Counter:
    try:
        from splintr import Tokenizer  # noqa: PLC0415  (loads 22 MB, so only where tokens are counted)

        tokenizer = Tokenizer.from_pretrained(ENCODING)
        tokenizer.encode_ordinary("warm")  # compiles its patterns, which takes 80 ms once
    except (ImportError, OSError, ValueError, RuntimeError):
        return CharacterCounter()
    return SplintrCounter(tokenizer)
