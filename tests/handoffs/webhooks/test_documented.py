"""Tests of the receiver code in the documentation."""

import re
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.handoffs.webhooks import delivery
from handoffaudit.handoffs.webhooks.client import sign

DOCS = Path(__file__).parents[3] / "docs" / "webhooks.md"


@pytest.fixture(scope="module")
def is_genuine() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102 -- our own page
    return found["is_genuine"]


def test_a_genuine_request_passes(is_genuine: Any) -> None:
    import time

    assert is_genuine("secret", sign("secret", b'{"a": 1}', int(time.time())), b'{"a": 1}')


def test_others_do_not(is_genuine: Any) -> None:
    import time

    now = int(time.time())
    good = sign("secret", b"{}", now)
    for secret, header, body in (
        ("other", good, b"{}"),
        ("secret", good, b"{ }"),
        ("secret", good.replace(f"t={now}", f"t={now + 1}"), b"{}"),
        ("secret", sign("secret", b"{}", now - 301), b"{}"),
        ("secret", "", b"{}"),
        ("secret", "t=x,v1=y", b"{}"),
    ):
        assert not is_genuine(secret, header, body)


def test_the_pauses_are_the_documented_ones() -> None:
    units = {"s": 1, "min": 60, "h": 3600}
    (said,) = re.findall(r"tried again after about (.*?)\. After eight tries", DOCS.read_text(), re.DOTALL)
    told = [int(number) * units[unit] for number, unit in re.findall(r"(\d+)\s(s|min|h)", said)]
    assert told == list(delivery.PAUSES)
    assert delivery.TRIES == 8
