"""Secrets do not go to a model."""

import time
from typing import Any

import pytest

from handoffaudit.validation.library.masking import masked

# put together here, so that no tool takes them for real ones
KEYS = [
    "sk-" + "ant-api03-" + "a1B2" * 10,
    "ghp_" + "a1B2c3" * 6,
    "AKIA" + "ABCDEFGH12345678",
    "xoxb-" + "123456789012-abcdef",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + ".c2lnbmF0dXJl",
    "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END RSA " + "PRIVATE KEY-----",
]


@pytest.mark.parametrize("key", KEYS)
def test_by_the_look_of_the_text(key: str) -> None:
    assert masked({"note": [f"It is {key} for now."]}) == {"note": ["It is [masked] for now."]}


def test_in_addresses_and_headers() -> None:
    assert masked("postgres://me:hunter2@db/x") == "postgres://[masked]@db/x"
    assert masked("Bearer abcdefghijklmnopqrst") == "Bearer [masked]"


@pytest.mark.parametrize("name", ["password", "OPENAI_API_KEY", "clientSecret", "access-token", "Authorization"])
def test_by_the_name_of_the_field(name: str) -> None:
    assert masked({"a": {name: "hunter2"}}) == {"a": {name: "[masked]"}}


@pytest.mark.parametrize(
    "value",
    [
        {"token_count": 150, "max_tokens": "1024", "token": 3, "secretary": "Ms Wu", "secret": ""},
        {"text": "The task-force asked at 12:30 about sk-12."},
        {"url": "https://example.org/a:b@c", "mail": "me@example.org"},
        [1, None, True],
    ],
)
def test_what_is_no_secret_stays(value: Any) -> None:
    assert masked(value) == value


def test_hostile_texts_take_linear_time() -> None:
    for text in ("eyJ-" * 250_000, "-----BEGIN " * 100_000, "sk-" * 300_000, "://a" * 250_000, "://a:" * 200_000):
        started = time.process_time()
        masked(text)
        assert time.process_time() - started < 5
