"""Tests that the client masks what the server masks."""

from typing import Any

import pytest
from handoffaudit_client import assignments, key_forms, masking, secret_names
from handoffaudit_client.plain_json import encode, to_plain
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation.prompts import masking as of_server
from handoffaudit.validation.prompts import secrets
from tests.validation.prompts.secret_corpus import HARMLESS, IN_TEXTS, LOOKS, NAMED

TEXTS = [
    *(f"It is {secret} for now." for secret in LOOKS.values()),
    *(text for text, _ in IN_TEXTS),
    # The shortest text that has a secret.
    "密码=1",
    *(one for one in HARMLESS if isinstance(one, str)),
]


def mask(value: Any) -> Any:
    plain = to_plain(value)
    return masking.mask_plain(plain, encode(plain))


def test_the_tables_are_those_of_the_server() -> None:
    assert [tuple(look) for look in key_forms.LOOKS] == [(one.starts, one.pattern, one.back) for one in secrets.LOOKS]
    assert assignments.WORDS == secrets._WORDS
    assert assignments._HEAD == secrets._HEAD
    for name in ("_PASSWORDS", "_KEYS", "_TOKENS", "_TOKEN_LISTS", "_WORDS", "_BESIDE"):
        assert getattr(secret_names, name) == getattr(of_server, name)
    assert masking._SHORTEST == secrets._SHORTEST
    assert (masking.MASKED, masking._NAMING, masking._VALUED) == (secrets.MASKED, of_server.NAMING, of_server.VALUED)


def test_each_name_of_a_secret_has_a_part_that_is_looked_for() -> None:
    names = [*secret_names._PASSWORDS, *secret_names._KEYS, *secret_names._TOKENS, *secret_names._WORDS]
    parts = (*masking.PARTS, *masking._PARTS_BEYOND_ASCII)
    assert [one for one in (*names, *assignments.WORDS) if not any(part in one for part in parts)] == []


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_masked_as_in_the_server(text: str) -> None:
    assert mask({"note": text}) == of_server.mask_secrets({"note": text})
    assert mask([text, {"value": text, "name": "x"}]) == of_server.mask_secrets([text, {"value": text, "name": "x"}])


@pytest.mark.parametrize("value", [value for value, _ in NAMED], ids=str)
def test_a_named_value_is_masked_as_in_the_server(value: Any) -> None:
    assert mask(value) == of_server.mask_secrets(value)


@pytest.mark.parametrize(
    "name",
    ["password", "DB_PASSWORD", "apiKey", "api-key", "Authorization", "pin", "tokens", "mot de passe", "lösenord"],
)
@pytest.mark.parametrize("value", ["abc", 1234, ["a", 1, None], {"x": "y"}, "", None, True])
def test_a_field_is_masked_as_in_the_server(name: str, value: Any) -> None:
    for given_value in ({name: value}, {"name": name, "value": value}, [name, value], {name: {name: value}}):
        assert mask(given_value) == of_server.mask_secrets(given_value)


_PIECES = st.sampled_from(
    [
        "password",
        "=",
        ":",
        " ",
        "hunter2",
        "token",
        "sk-",
        "abc123def456ghi7",
        "Bearer ",
        "://",
        "@",
        '"',
        "\n",
        "pin is 1",
        "ä",
    ]
)


@given(st.lists(_PIECES, max_size=12).map("".join))
def test_any_text_is_masked_as_in_the_server(text: str) -> None:
    assert mask({"note": text}) == of_server.mask_secrets({"note": text})


def test_keys_that_are_equal_after_masking_keep_their_values() -> None:
    value = {"sk-abcdefghijklmnop1234": 1, "sk-abcdefghijklmnop5678": 2}
    assert mask(value) == {"[masked]": 1, "[masked] 2": 2}


def test_nothing_to_mask_is_the_same_object() -> None:
    plain = {"summary": "Three suppliers deliver within a week."}
    assert masking.mask_plain(plain, encode(plain)) is plain


def test_python_3_10_finds_the_same() -> None:
    """Python 3.10 has no possessive quantifiers."""
    for look in key_forms.LOOKS:
        greedy, possessive = (key_forms.compile_pattern(look.pattern, version=one) for one in ((3, 10), (3, 11)))
        assert "*+" not in greedy.pattern
        assert "}+" not in greedy.pattern
        for text in TEXTS:
            assert [one.span() for one in greedy.finditer(text)] == [one.span() for one in possessive.finditer(text)]
