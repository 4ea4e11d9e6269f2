"""Tests of the description of each scope on the page of keys."""

from pathlib import Path

from django.conf import settings

from handoffaudit.accounts.models import Scope
from handoffaudit.dashboard.settings.accounts import MEANING
from tests.access.support import scopes_of_api

# The first part of an address of the API, and what the page calls it.
NAMED = {
    "agents": "declared routes",
    "erasures": "erase values",
    "handoff-files": "handoff files",
    "legal-holds": "legal holds",
    "policies": "all policies",
    "prompts": "prompts",
    "retention": "retention",
    "rules": "rules",
    "schemas": "schemas",
    "strictness": "strictness",
    "webhooks": "webhooks",
}


def test_all_that_a_key_of_an_administrator_may_change_is_named_and_in_the_docs_with_the_same_words() -> None:
    changed = {
        path.split("/")[1]
        for (method, path), scope in scopes_of_api().items()
        if scope == Scope.ADMIN and method != "GET"
    }
    assert changed == set(NAMED)
    for name in NAMED.values():
        assert name in MEANING[Scope.ADMIN]
    docs = (Path(settings.WEB) / "docs" / "keys.md").read_text(encoding="utf-8")
    for scope in (Scope.REVIEW, Scope.ADMIN):
        assert f"| `{scope.value}` | {MEANING[scope]} |" in docs
