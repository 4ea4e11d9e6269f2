"""Tests that secrets are not sent to an LLM."""

import json
from functools import partial
from typing import Any

import pytest

from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import as_text
from handoffaudit.validation.prompts.secrets import MASKED
from tests.elapsed import grows_linearly
from tests.scale import cases, size

from .secret_corpus import HARMLESS, IN_TEXTS, LOOKS, MIXED, NAMED

WORST = [
    *("eyJ-", "eyJ", "eyJaaaaaaaaaaa.", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----a-"),
    *("sk-", "sk-a", "sk_live_", "gh", "ghp_", "hf_", "xoxb-", "xapp-1-", "SG.", "SG." + "a" * 20 + ".", "A3-", "AKIA"),
    *("MT" + "M" * 22 + ".", "12345678:AA", "8Q~", ".atlasv1.", "0123456789abcdef" * 2 + "-us", "pat" + "a" * 14 + "."),
    *("://a", "://a:", "://a:b", "jdbc:oracle:thin:a/", "hooks.slack.com/services/", "/api/webhooks/12345/"),
    *("Bearer ", "Bearer a", "Basic ", "basic aB", "password", "password=", 'password="', 'password=\\"', "password:"),
    *("password is ", "token:", "token: ", "token ", "--token ", "login a ", "login a password ", "?sig=", "cookie:a"),
    *("authorization: ", "authorization: basic ", "secret ", "secret key", "api key", "mot de passe", "PWD=/", "İ"),
    *("_pass=", 'password="a\\"', 'cookie:="', 'password="a\n'),
]

# One of each kind: a token, a key, an address, a name with its value, a header, words, and a part of a word.
WORST_BY_DAY = {
    *("eyJ", "-----BEGIN ", "sk-a", "://a:b", 'password="', "password is ", "Bearer a", "token ", "_pass=", "İ"),
}


@pytest.mark.parametrize("secret", LOOKS.values(), ids=LOOKS)
def test_by_the_look_of_the_text(secret: str) -> None:
    assert mask_secrets({"note": [f"It is {secret} for now."]}) == {"note": ["It is [masked] for now."]}
    assert mask_secrets(f"({secret})") == "([masked])"
    assert mask_secrets({secret: 1}) == {"[masked]": 1}


def test_a_key_without_its_end_is_masked_as_far_as_it_goes() -> None:
    assert mask_secrets("-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE" * 1 + MIXED) == "[masked]"


@pytest.mark.parametrize(("text", "secret"), IN_TEXTS, ids=[text[:30] for text, _ in IN_TEXTS])
def test_inside_a_text(text: str, secret: str) -> None:
    found = mask_secrets(text)
    assert secret not in found
    assert "[masked]" in found
    # what stands around it stays to be judged
    assert found.partition("[masked]")[0] == text[: len(found.partition("[masked]")[0])]
    assert secret not in json.dumps(mask_secrets([{"log": text}]), ensure_ascii=False)


def test_the_shortest_assignment_is_masked() -> None:
    assert mask_secrets("密码=1") == "密码=[masked]"


@pytest.mark.parametrize(("value", "expected"), NAMED, ids=[str(value)[:40] for value, _ in NAMED])
def test_by_the_name_of_the_field(value: Any, expected: Any) -> None:
    assert mask_secrets(value) == expected


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: str(value)[:40])
def test_what_is_no_secret_stays(value: Any) -> None:
    assert mask_secrets(value) == value


@pytest.mark.parametrize("value", [*LOOKS.values(), *(text for text, _ in IN_TEXTS), *(value for value, _ in NAMED)])
def test_what_is_masked_stays_as_it_is(value: Any) -> None:
    assert mask_secrets(mask_secrets(value)) == mask_secrets(value)


@pytest.mark.parametrize("secret", LOOKS.values(), ids=LOOKS)
def test_a_secret_at_the_cut_is_masked_before_it_is_cut(secret: str) -> None:
    start = " ".join(secret.split())[:12]
    for before in (9_950, 9_980):
        text = "x" * before + " " + secret + " " + "z" * 50
        sent = layer_questions.grounding_content({"text": text}, {"text": text})
        assert start not in sent


def test_keys_that_look_the_same_once_they_are_masked_hide_nothing() -> None:
    first, second = f"password={MIXED}a", f"password={MIXED}b"
    data = {"password=[masked] 3": 0, first: "false", second: "true", "credentials": {first: 1, second: 2}}
    found = mask_secrets(data)
    assert list(found.values())[:3] == [0, "false", "true"]
    assert len(found["credentials"]) == 2


def test_thousands_of_such_keys_take_no_longer() -> None:
    def keyed(count: int) -> dict[str, int]:
        return {f"pin={value}{number}": 1 for value in ("[masked] ", "x") for number in range(count)}

    assert len(mask_secrets(keyed(size(20_000)))) == 2 * size(20_000)
    assert grows_linearly(lambda count: partial(mask_secrets, keyed(count)), size(1250))


def test_nothing_of_a_value_is_changed_in_place() -> None:
    value = {"password": "x", "list": [{"token": "y"}]}
    mask_secrets(value)
    assert value == {"password": "x", "list": [{"token": "y"}]}


def test_parts_of_a_question_are_masked() -> None:
    assert as_text({"api_key": "hunter2"}) == '{"api_key":"[masked]"}'


ORDINARY = "The supplier answered on 3 March; 12.40 EUR per unit, see https://example.org/a?b=c for tokens. "


@pytest.mark.parametrize("piece", cases([*WORST, ORDINARY], WORST_BY_DAY))
def test_hostile_texts_take_linear_time_up_to_a_megabyte(piece: str) -> None:
    assert grows_linearly(lambda length: partial(mask_secrets, piece * (length // len(piece))), size(2**16))


def test_a_secret_right_behind_another_is_masked_too() -> None:
    first = "pataB3dE5gH7jK9mN." + "0a1b2c3d4e5f6071" * 4
    second = "sk-ant-api03-" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z" * 3
    assert mask_secrets(first + second) == MASKED * 2
    assert mask_secrets(second + "," + first) == f"{MASKED},{MASKED}"
