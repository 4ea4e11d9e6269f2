"""Tests that the keys in the help are the keys that the script handles."""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from django.test import Client

import handoffaudit
from handoffaudit.accounts.models import Person
from handoffaudit.dashboard.review.page import KEYS, keys_for
from tests.pages import attributes

PARTS = Path(handoffaudit.__file__).parents[1] / "static" / "js" / "review"
SCRIPT = (PARTS / "keys.js").read_text()


def acted() -> set[str]:
    """Return the names of the script's actions."""
    table = re.search(r"const ACTIONS = \{(.*?)\n\};", SCRIPT, re.DOTALL)
    assert table
    return {re.sub(r"\d$", "", name) for name in re.findall(r"^  (\w+)[:,]", table[1], re.MULTILINE)}


def test_each_listed_key_does_something_and_nothing_is_done_by_a_key_that_is_not_listed() -> None:
    # Sending works in the note alone, where the other keys are letters.
    assert {key.action for key in KEYS} - {"send"} == acted()


def test_no_key_does_two_things() -> None:
    pressed = list(chain.from_iterable(key.keys for key in KEYS))
    assert len(pressed) == len(set(pressed))


def test_a_viewer_is_shown_no_key_that_decides() -> None:
    shown = {key.action for key in keys_for(may_review=False)}
    assert shown == {"next", "previous", "search", "help", "leave"}


def test_the_help_of_the_page_has_every_key(sign_in: Callable[[Person], Client], reviewer: Person) -> None:
    page = sign_in(reviewer).get("/t/acme/review/")
    assert attributes(page, "[data-action]", "data-action") == [key.action for key in KEYS]


def test_each_part_of_the_script_is_asked_for_at_once(sign_in: Callable[[Person], Client], reviewer: Person) -> None:
    page = sign_in(reviewer).get("/t/acme/review/")
    asked = attributes(page, 'script[type=module][src^="/static/js/review/"]', "src")
    assert sorted(Path(one).name.partition(".")[0] for one in asked) == sorted(path.stem for path in PARTS.glob("*.js"))
