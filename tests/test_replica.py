"""Tests of reads from a replica: positions in the write-ahead log, and which database a query goes to."""

import threading
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from handoffaudit import env, replica
from handoffaudit.accounts.models import Membership, Person, Tenant


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("0/16B3748", 0x16B3748),
        ("1/0", 1 << 32),
        ("FFFFFFFF/FFFFFFFF", 2**64 - 1),
        ("", None),
        ("0/16b3748", None),
        ("0/16B3748 ", None),
        ("0/16B3748\n", None),
        ("-1/0", None),
        ("100000000/0", None),
        ("0/" + "F" * 100_000, None),
        ("\u0660/0", None),
    ],
)
def test_a_position_is_read_and_nothing_else(text: str, position: int | None) -> None:
    assert replica.parse_position(text) == position


def test_without_a_replica_nothing_changes(client: Client, db: None) -> None:
    assert replica.ALIAS not in settings.DATABASES
    with replica.prefer("0/1") as reads:
        assert reads is None
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    answer = client.get("/sign-in/")
    assert (answer.status_code, replica.COOKIE in answer.cookies) == (200, False)


@pytest.mark.django_db(transaction=True)
def test_reads_go_to_the_replica_until_the_first_write() -> None:
    router, token = replica.Router(), replica._reads.set(replica._Reads())
    try:
        assert router.db_for_read(Tenant) == "replica"
        assert router.db_for_write(Tenant) == "default"
        assert router.db_for_read(Tenant) == "default"
    finally:
        replica._reads.reset(token)
    assert router.db_for_read(Tenant) == "default"


@pytest.mark.django_db(transaction=True)
def test_sign_in_and_membership_are_read_from_the_primary() -> None:
    router, token = replica.Router(), replica._reads.set(replica._Reads())
    try:
        assert {router.db_for_read(model) for model in (Session, Person, Membership)} == {"default"}
        assert router.db_for_read(Tenant) == "replica"
    finally:
        replica._reads.reset(token)


@pytest.mark.parametrize("covers", [True, False])
def test_a_get_that_writes_moves_the_position_of_the_browser(monkeypatch: pytest.MonkeyPatch, covers: bool) -> None:
    """The position also moves while the replica is behind or away: it may catch up before the next request."""
    router = replica.Router()
    monkeypatch.setitem(settings.DATABASES, replica.ALIAS, {})
    monkeypatch.setattr(replica._position, "covers", lambda _: covers)

    def remember(response: HttpResponse) -> HttpResponse:
        response.set_cookie(replica.COOKIE, "0/1")
        return response

    monkeypatch.setattr(replica, "_remember", remember)

    def respond(request: HttpRequest) -> HttpResponse:
        assert router.db_for_read(Tenant) == ("replica" if covers else "default")
        if request.path == "/write":
            router.db_for_write(Tenant)
            assert router.db_for_read(Tenant) == "default"
        return HttpResponse()

    middleware = replica.ReplicaMiddleware(respond)
    assert replica.COOKIE in middleware(RequestFactory().get("/write")).cookies
    assert replica.COOKIE not in middleware(RequestFactory().get("/read")).cookies


def test_nobody_waits_while_a_thread_asks_a_replica_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other threads use the last answer for a moment, and then the primary."""
    now = 100.0
    monkeypatch.setattr(replica, "time", SimpleNamespace(monotonic=lambda: now))
    position, asked, answered = replica._Position(), threading.Event(), threading.Event()
    monkeypatch.setattr(position, "_read", lambda: 5)
    assert position.covers("0/5")

    def ask() -> None:
        asked.set()
        answered.wait(60)

    monkeypatch.setattr(position, "_read", ask)
    now += replica.KNOWN_SECONDS
    thread = threading.Thread(target=position.covers, args=[""])
    thread.start()
    assert asked.wait(60)
    assert position.covers("0/5")
    now += replica.OLDEST_SECONDS
    assert not position.covers("0/5")
    answered.set()
    thread.join(60)


def test_no_page_waits_again_for_a_replica_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first page waits. Then a thread of its own asks, until the replica is back."""
    now, done = 100.0, threading.Event()
    threads: list[threading.Thread] = []
    monkeypatch.setattr(replica, "time", SimpleNamespace(monotonic=lambda: now))
    position = replica._Position()

    def fail() -> None:
        threads.append(threading.current_thread())
        position._tell("the replica does not answer")
        done.set()

    def answer() -> int:
        threads.append(threading.current_thread())
        position._is_told = False
        done.set()
        return 5

    monkeypatch.setattr(position, "_read", fail)
    assert not position.covers("")
    assert threads == [threading.current_thread()]
    for read in (fail, answer):
        monkeypatch.setattr(position, "_read", read)
        now += replica.KNOWN_SECONDS
        done.clear()
        assert not position.covers("") or read is answer
        assert done.wait(60)
        assert threads[-1] is not threading.current_thread()
        threads[-1].join(60)
    assert position.covers("0/5")
    assert len(threads) == 3


@pytest.mark.django_db
def test_a_transaction_reads_what_it_wrote() -> None:
    assert connections["default"].in_atomic_block
    token = replica._reads.set(replica._Reads())
    try:
        assert replica.Router().db_for_read(Tenant) == "default"
    finally:
        replica._reads.reset(token)


def test_an_export_is_read_from_the_replica_while_it_is_sent() -> None:
    reads = replica._Reads()

    def parts():
        yield b"1" if replica._reads.get() is reads else b"0"
        yield b"1" if replica._reads.get() is reads else b"0"

    sent = replica._stream(parts(), reads)
    assert (next(sent), replica._reads.get(), next(sent)) == (b"1", None, b"1")
    assert list(sent) == []


def test_a_replica_needs_postgresql_and_shares_the_settings_of_the_primary(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("DATABASE_REPLICA_URL", "postgresql://reader@replica.example.com/audit")
    monkeypatch.setenv("DATABASE_URL", "")
    with pytest.raises(ImproperlyConfigured, match="DATABASE_REPLICA_URL"):
        env.databases(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "postgresql://writer@primary.example.com/audit")
    monkeypatch.setenv("HANDOFFAUDIT_PGBOUNCER", "true")
    found = env.databases(tmp_path)
    assert (found["default"]["HOST"], found["replica"]["HOST"]) == ("primary.example.com", "replica.example.com")
    assert found["replica"]["OPTIONS"] == found["default"]["OPTIONS"]
    assert found["replica"]["DISABLE_SERVER_SIDE_CURSORS"] is found["default"]["DISABLE_SERVER_SIDE_CURSORS"] is True
    monkeypatch.setenv("DATABASE_REPLICA_URL", "postgresql://")
    assert env.databases(tmp_path)["replica"]["ENGINE"] == "django.db.backends.postgresql"
