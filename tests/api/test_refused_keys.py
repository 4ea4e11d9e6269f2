"""Tests of the log lines about rejected API keys."""

import time
from datetime import timedelta

import httpx
import pytest
import structlog
from django.utils import timezone

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Key, Scope, Tenant
from handoffaudit.api import auth
from tests.api.support import client, make_key

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_logged(monkeypatch) -> None:
    monkeypatch.setattr(auth, "_logged", {})


def said(*secrets: str) -> list[dict[str, object]]:
    with structlog.testing.capture_logs() as logged:
        for secret in secrets:
            with client(secret) as api:
                assert api.get("/handoffs").status_code == 401
    return [one for one in logged if one["event"] == "a key was refused"]


def test_a_revoked_one_is_named_once_a_minute(tenant: Tenant, monkeypatch) -> None:
    secret = make_key(tenant, "read")
    key = Key.objects.get()
    keys.revoke(tenant=tenant, key_id=key.pk, actor="ada")
    first, *others = said(secret, secret, secret)
    assert not others
    assert (first["beginning"], first["why"], first["key"]) == (key.prefix, "revoked", f"{key.name} of acme")
    assert "address" in first
    monkeypatch.setattr(auth, "LOG_EVERY_SECONDS", 0.0)
    assert len(said(secret)) == 1


def test_an_expired_one_is_logged_as_such(tenant: Tenant) -> None:
    secret = make_key(tenant, "read")
    Key.objects.update(expires_at=timezone.now() - timedelta(days=1))
    assert [one["why"] for one in said(secret)] == ["expired"]


def test_an_unknown_one_shows_its_beginning_and_another_secret_nothing(tenant: Tenant) -> None:
    unknown = f"ha_{'k' * 40}"
    found = said(unknown, "hunter2-hunter2-hunter2-hunter2-hunter2")
    assert [(one["beginning"], one["why"]) for one in found] == [
        (unknown[:11], "unknown here"),
        ("", "the key does not look like a key of this product"),
    ]


def test_who_makes_keys_up_does_not_fill_the_log(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(auth, "MOST_LOGGED", 2)
    assert len(said(*(f"ha_{letter * 40}" for letter in "abcd"))) == 2


def test_without_a_key_nothing_is_logged(api: httpx.Client) -> None:
    with structlog.testing.capture_logs() as logged:
        assert api.get("/handoffs", headers={"Authorization": ""}).status_code == 401
    assert logged == []


def test_one_revoked_while_the_body_was_sent_is_refused(
    tenant: Tenant, rf, monkeypatch, django_capture_on_commit_callbacks
) -> None:
    secret = make_key(tenant, "read")
    request = rf.get("/", headers={"Authorization": f"Bearer {secret}"})
    # The server checks the key before it reads the body.
    request.META[auth.IDENTITY] = keys.authenticate(secret), time.monotonic()
    with django_capture_on_commit_callbacks(execute=True):
        keys.revoke(tenant=tenant, key_id=Key.objects.get().pk, actor="ada")
    assert auth.KeyWith(Scope.READ)(request)
    monkeypatch.setattr(auth, "IDENTITY_SECONDS", 0.0)
    assert auth.KeyWith(Scope.READ)(request) is None
