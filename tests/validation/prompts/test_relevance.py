"""Tests that the part of a long context that concerns the data is sent first."""

import json
from functools import partial
from typing import Any

import pytest

from handoffaudit.validation.prompts.relevance import select_relevant
from tests.elapsed import grows_linearly

DATA = {"supplier": "Kronberg", "price": "12.40 EUR"}
HIT = "Kronberg offers a price of 12.40 EUR."
FILLER = "The quick brown fox jumps over the lazy dog, as it does each and every day. "
MEGABYTE = 2**20
SECRET = "sk-" + "ant-api03-" + "a1B2" * 10


def test_all_of_it_where_it_fits() -> None:
    context = {"b": FILLER, "a": [HIT, {"c": None}]}
    assert json.loads(select_relevant(context, DATA)) == context


def many(hit: Any = HIT) -> dict[str, Any]:
    return {
        "fields": {**{f"k{n}": FILLER for n in range(300)}, "z": hit},
        "entries": {"list": [*[FILLER] * 300, hit]},
        "objects": {"list": [*[{"text": FILLER, "n": n} for n in range(300)], {"text": hit}]},
        "paragraphs": {"text": "\n\n".join([FILLER] * 300 + [str(hit)])},
        "lines": {"text": "\n".join([FILLER] * 300 + [str(hit)])},
        "sentences": {"text": FILLER * 300 + str(hit)},
        "deep": {"a": {"b": [{"c": {"d": [*[FILLER] * 300, hit]}}]}},
        "a bare list": [*[FILLER] * 300, hit],
    }


@pytest.mark.parametrize("context", many().values(), ids=many())
def test_what_bears_on_the_data_comes_first(context: Any) -> None:
    sent = select_relevant(context, DATA)
    assert len(sent) <= 10_000
    assert sent.endswith("[truncated]")
    assert HIT in sent
    assert sent.index(HIT) < 200
    assert select_relevant(context, DATA) == sent


def test_numbers_count_for_more_than_words() -> None:
    context = [*["price of the supplier offers"] * 400, "It is 12.40 and 17."]
    assert select_relevant(context, {"text": "price supplier 12.40 17"}).startswith('["It is 12.40 and 17."')


def test_without_anything_in_common_the_order_is_kept() -> None:
    context = {f"k{n}": FILLER for n in range(300)}
    assert list(json.loads(select_relevant(context, {}).removesuffix("[truncated]"))) == list(context)[: _kept(context)]


def _kept(context: dict[str, str]) -> int:
    return len(json.loads(select_relevant(context, {}).removesuffix("[truncated]")))


@pytest.mark.parametrize("context", many(HIT + " password=hunter2 " + SECRET).values(), ids=many())
def test_secrets_are_masked_in_parts_too(context: Any) -> None:
    sent = select_relevant(context, DATA)
    assert HIT in sent
    assert "hunter2" not in sent
    assert "ant-api03" not in sent


def test_a_key_over_several_paragraphs_is_not_taken_apart() -> None:
    key = (
        "-----BEGIN PGP "
        + "PRIVATE KEY BLOCK-----\nVersion: 1\n\nKronberg1240EUR\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----"
    )
    assert "lQOYBF" not in select_relevant({"text": FILLER * 300 + "\n\n" + key + "\n\nKronberg"}, DATA)


def test_names_keep_their_values_masked() -> None:
    context = {"list": [FILLER] * 300, "settings": {"api_key": "hunter2", "supplier": "Kronberg"}}
    sent = select_relevant(context, DATA)
    assert '"supplier":"Kronberg"' in sent
    assert "hunter2" not in sent


APART = {
    "a value without its name": {"value": "hunter2", "description": FILLER * 300, "name": "DB_PASSWORD"},
    "a nested value": {"env": [{"value": "hunter2", "notes": FILLER * 300, "name": "DB_PASSWORD"}]},
    "sentences": FILLER * 300 + 'password = "old; Kronberg hunter2" ',
}


@pytest.mark.parametrize("context", APART.values(), ids=APART)
def test_no_part_of_a_secret_is_sent_without_its_name(context: Any) -> None:
    assert "hunter2" not in select_relevant(context, DATA)


def test_a_context_that_fits_without_its_secrets_is_not_cut() -> None:
    sent = select_relevant({"note": FILLER * 120, "password": "hunter2 " * 200}, DATA)
    assert not sent.endswith("[truncated]")
    assert json.loads(sent)["note"] == FILLER * 120


ODD: dict[str, Any] = {
    "one word": {"t": "x" * MEGABYTE},
    "numbers": {"n": list(range(MEGABYTE // 8))},
    "short entries": {"l": ["ab"] * (MEGABYTE // 5)},
    "deep": json.loads('{"a":' * 60 + json.dumps([FILLER] * 5000) + "}" * 60),
    "a long name": {"k" * 50_000: HIT},
    "half pairs": {"t": "\ud800 " * 20_000},
    "quotes": {"t": '"\\\n' * 20_000},
}


@pytest.mark.parametrize("context", ODD.values(), ids=ODD)
def test_odd_contexts_are_cut_too(context: Any) -> None:
    sent = select_relevant(context, DATA)
    assert len(sent) <= 10_000
    assert sent.endswith("[truncated]")
    sent.encode()


@pytest.mark.parametrize("kind", ["fields", "entries", "objects", "paragraphs", "lines", "sentences"])
def test_a_megabyte_takes_time_in_proportion(kind: str) -> None:
    def context(size: int) -> dict[str, Any]:
        count = size // len(FILLER)
        match kind:
            case "fields":
                return {f"k{n}": FILLER for n in range(count)}
            case "entries":
                return {"list": [FILLER] * count}
            case "objects":
                return {"list": [{"text": FILLER, "n": n} for n in range(count)]}
            case "paragraphs":
                return {"text": "\n\n".join([FILLER * 5] * (count // 5))}
            case "lines":
                return {"text": "\n".join([FILLER] * count)}
            case _:
                return {"text": FILLER * count}

    assert grows_linearly(lambda size: partial(select_relevant, context(size), DATA), MEGABYTE // 16)
