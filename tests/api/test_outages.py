"""Tests of the API, the pages and /readyz while the database fails or has hardly any room."""

import contextlib
import sqlite3
from collections.abc import Iterator

import httpx
import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from handoffaudit import database_faults, sqlite_file
from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.api import auth
from tests.api.support import problem
from tests.handoffs.support import payload

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the faults are made in an SQLite file"),
]
READY = "http://testserver/readyz"


@pytest.fixture(autouse=True)
def impatient(settings) -> Iterator[None]:
    settings.REDIS_URL = ""
    settings.QUEUE_FOLDER.mkdir(parents=True, exist_ok=True)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 50")
    yield
    connection.close()


def assert_unavailable(api: httpx.Client, cause: str, said: str) -> None:
    answer = api.post("/handoffs", json=payload(data={"summary": "x" * 200_000}))
    assert problem(answer, 503)["cause"] == cause
    assert answer.json()["type"] == "/help/problems/the-database-cant-be-used/"
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    ready = api.get(READY)
    assert (ready.status_code, said in ready.json()["checks"]["database"]) == (503, True)
    # Reads still work.
    assert api.get("/handoffs").status_code == 200


def test_a_database_that_is_locked(api: httpx.Client, tenant: Tenant) -> None:
    Person.objects.create_user("ada", password="a long password")
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert_unavailable(api, "locked", "is locked")
        page = Client().post(reverse("account_login"), {"login": "ada", "password": "a long password"})
    assert (page.status_code, page["Retry-After"]) == (503, "2")
    assert b"The database is not available" in page.content
    assert api.post("/handoffs", json=payload()).status_code == 202


def test_a_database_that_is_read_only(api: httpx.Client, tenant: Tenant) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = 1")
    assert_unavailable(api, "read_only", "is read-only")


def test_a_database_that_is_full(api: httpx.Client, tenant: Tenant) -> None:
    with connection.cursor() as cursor:
        (pages,) = cursor.execute("PRAGMA page_count").fetchone()
        cursor.execute(f"PRAGMA max_page_count = {pages}")
    # Free pages of the database from earlier tests take the first handoffs.
    answers = (api.post("/handoffs", json=payload(data={"summary": "x" * 900_000})) for _ in range(50))
    answer = next(one for one in answers if one.status_code != 202)
    assert problem(answer, 503)["cause"] == "full"
    assert api.get("/handoffs").status_code == 200


def assert_refused_over_the_rate(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that nothing is stored for a key over its rate, whose hook events are otherwise stored."""
    with monkeypatch.context() as patch:
        patch.setattr(auth._rate, "seconds_to_wait", lambda *_: 60)
        problem(api.post("/hooks/post-tool-use", json={}), 503)


def test_a_damaged_file_that_is_known_takes_nothing_new(
    api: httpx.Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = sqlite_file.DamageWatch()
    monkeypatch.setattr(sqlite_file, "damage_watch", watch)
    monkeypatch.setattr(sqlite_file, "find_damage", lambda *_, **__: "wrong # of entries in index x")
    # Nobody has looked yet, and a submission does not look.
    assert api.post("/handoffs", json=payload()).status_code == 202
    ready = api.get(READY)
    assert (ready.status_code, "is damaged" in ready.json()["checks"]["database"]) == (503, True)
    for address, sent in (("/handoffs", payload()), ("/handoffs/batch", [payload()]), ("/hooks/post-tool-use", {})):
        answer = api.post(address, json=sent)
        assert problem(answer, 503)["cause"] == "damaged"
        assert answer.headers["Retry-After"] == "60"
    assert_refused_over_the_rate(api, monkeypatch)
    assert len(api.get("/handoffs").json()["items"]) == 1
    assert api.post("/validate", json=payload()).status_code == 200
    # The file is looked at again after a while, also where nobody asks for /readyz.
    monkeypatch.setattr(sqlite_file, "find_damage", lambda *_, **__: "")
    monkeypatch.setattr(watch, "_check_at", 0.0)
    assert api.post("/handoffs", json=payload()).status_code == 202


def test_a_disk_that_is_nearly_full_takes_nothing_new(
    api: httpx.Client, tenant: Tenant, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MIN_FREE_BYTES, share = 10**18, 1.0
    monkeypatch.setattr(database_faults, "LEAST_FREE_SHARE", share)
    monkeypatch.setattr(auth, "_room_known_until", 0.0)
    for address, sent in (("/handoffs", payload()), ("/handoffs/batch", [payload()]), ("/hooks/post-tool-use", {})):
        answer = api.post(address, json=sent)
        assert problem(answer, 503)["title"] == "The disk is nearly full"
        assert answer.headers["Retry-After"] == "60"
    assert_refused_over_the_rate(api, monkeypatch)
    assert api.get("/handoffs").json()["items"] == []
    assert api.post("/validate", json=payload()).status_code == 200
    ready = api.get(READY)
    assert (ready.status_code, "make room" in ready.json()["checks"]["disk"]) == (503, True)
    settings.MIN_FREE_BYTES = 0
    assert api.get(READY).status_code == 200
    assert api.post("/handoffs", json=payload()).status_code == 202
