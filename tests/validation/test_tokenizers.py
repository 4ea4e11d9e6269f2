"""Tests of counted and estimated tokens."""

import random
import threading
from functools import partial

import pytest

from handoffaudit.validation.tokenizers import CHARACTERS_PER_TOKEN, CharacterCounter, default_counter
from tests.elapsed import grows_linearly


def test_the_real_tokenizer_counts() -> None:
    counter = default_counter()
    assert counter.name == "o200k_base"
    assert not counter.estimated
    assert counter.count("") == 0
    assert counter.count("hello world") == 2


def test_a_special_token_is_plain_text() -> None:
    assert default_counter().count("<|endoftext|>") > 1


def test_half_a_surrogate_pair_is_counted() -> None:
    assert default_counter().count("a\ud800b") > 0


def test_the_estimate_is_a_share_of_the_characters() -> None:
    assert CharacterCounter().count("x" * round(10 * CHARACTERS_PER_TOKEN)) == 10
    assert CharacterCounter().estimated


def test_it_is_loaded_once_for_all_threads() -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(default_counter())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(counter) for counter in found}) == 1


@pytest.mark.parametrize("alphabet", ["a", " ", "0123456789", "\n", "的", "aZ"])
def test_a_megabyte_of_anything_takes_time_in_proportion(alphabet: str) -> None:
    text = "".join(random.Random(1).choices(alphabet, k=1_000_000))  # noqa: S311
    counter = default_counter()
    assert grows_linearly(lambda size: partial(counter.count, text[:size]), 62_500)
