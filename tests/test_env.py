"""Tests that wrong settings stop the start with a line that names them."""

import runpy
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from handoffaudit import env
from handoffaudit.cli import Stop
from handoffaudit.cli.terminal import data_folder
from handoffaudit.env import amount, check_prices, redis_address, web_address
from handoffaudit.request_bodies import SILENT_SECONDS


@pytest.mark.parametrize("value", ["localhost", "gateway.example.com:8080", "ftp://example.com"])
def test_an_address_without_its_scheme_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", value)
    with pytest.raises(
        ImproperlyConfigured, match=r"ANTHROPIC_BASE_URL is .*: write it with http or https, e.g. https://\w+\b(?!:/)"
    ):
        web_address("ANTHROPIC_BASE_URL")


@pytest.mark.parametrize("value", ["http://[::1", "https://gateway.example.com:99999"])
def test_a_malformed_address_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", value)
    with pytest.raises(ImproperlyConfigured, match=r"ANTHROPIC_BASE_URL is .*: correct the host or the port"):
        web_address("ANTHROPIC_BASE_URL")


@pytest.mark.parametrize("value", ["ftp://me:hunter2@a.example", "https://me:hunter2@a:99999", "https://me:hunter2#@a"])
def test_a_malformed_address_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", value)
    with pytest.raises(ImproperlyConfigured, match="ANTHROPIC_BASE_URL") as raised:
        web_address("ANTHROPIC_BASE_URL")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("value", ["", "http://127.0.0.1:8099", "https://gateway.example.com/v1"])
def test_an_address_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", value)
    assert web_address("ANTHROPIC_BASE_URL") == value


@pytest.mark.parametrize(
    "value",
    [
        *("localhost:6379", "http://localhost:6379", "unix:///run/redis.sock", "redis://localhost:99999/0"),
        *("redis://:hunter2#x@localhost:6379/0", "redis://:hunter2/x@localhost:6379/0", "redis://[::1:6379/0"),
    ],
)
def test_a_redis_address_that_no_client_can_read_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("REDIS_URL", value)
    with pytest.raises(ImproperlyConfigured, match=r"REDIS_URL cannot be read: write it as redis://HOST") as raised:
        redis_address("REDIS_URL")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    "value", ["", "redis://", "redis://localhost", "redis://u:p%23@[::1]:6379/0", "rediss://h:1/2?ssl_cert_reqs=none"]
)
def test_a_redis_address_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("REDIS_URL", value)
    assert redis_address("REDIS_URL") == value


@pytest.mark.parametrize("value", ["-1", "-0.01"])
def test_an_amount_is_a_number_of_0_or_more(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_MODEL_DAILY_USD", value)
    with pytest.raises(ImproperlyConfigured, match="HANDOFFAUDIT_MODEL_DAILY_USD is"):
        amount("HANDOFFAUDIT_MODEL_DAILY_USD", 10.0)


def test_a_wait_ends_before_its_connection_counts_as_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "HANDOFFAUDIT_MAX_WAIT_SECONDS"
    monkeypatch.setenv(name, "120")
    assert env.positive(name, 60, most=120) == 120 < SILENT_SECONDS
    monkeypatch.setenv(name, "121")
    with pytest.raises(ImproperlyConfigured, match=f"{name} is 121: set it to a whole number of at most 120"):
        env.positive(name, 60, most=120)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("HANDOFFAUDIT_MODEL_CACHE_DAYS", 36_500),
        ("HANDOFFAUDIT_MODEL_CATCH_UP_HOURS", 876_000),
        ("HANDOFFAUDIT_RETENTION_SECONDS", 3_153_600_000),
    ],
)
def test_a_time_stays_within_the_calendar(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, str(most))
    assert env.positive(name, 30) == most
    monkeypatch.setenv(name, "999999999999")
    with pytest.raises(ImproperlyConfigured, match=f"{name} is 999999999999: .* at most {most}"):
        env.positive(name, 30)


def test_the_time_of_a_statement_is_one_that_postgresql_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "HANDOFFAUDIT_MAX_STATEMENT_SECONDS"
    monkeypatch.setenv("HANDOFFAUDIT_DATA", str(tmp_path))
    monkeypatch.setenv(name, "2147484")
    with pytest.raises(ImproperlyConfigured, match=f"{name} is 2147484: set it to a whole number of at most 2147483"):
        runpy.run_path(str(Path(env.__file__).with_name("settings.py")))


def test_prices_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_MODEL_PRICES", "dear")
    with pytest.raises(ImproperlyConfigured, match="HANDOFFAUDIT_MODEL_PRICES"):
        check_prices()


@pytest.mark.parametrize("read", [env.folder_or_none, env.file_or_none, env.folders])
def test_a_home_folder_that_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object]
) -> None:
    for name in ("HANDOFFAUDIT_DATA", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, "~no-such-user/data")
        with pytest.raises(ImproperlyConfigured, match=f"{name} is '~no-such-user/data', but there is no such home"):
            read(name)
        with pytest.raises(ImproperlyConfigured, match=f"{name} is"):
            env.data_folder()
        with pytest.raises(Stop, match="there is no such home folder"):
            data_folder()
        monkeypatch.delenv(name)


def test_private_targets_are_all_none_or_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, everything in (("", False), ("false", False), ("true", True), ("1", True)):
        monkeypatch.setenv("PRIVATE", given)
        assert env.private_targets("PRIVATE") == env.PrivateTargets(everything=everything)
    monkeypatch.setenv("PRIVATE", "Hooks.internal, 10.1.0.0/16,::1")
    found = env.private_targets("PRIVATE")
    assert (found.everything, found.hosts) == (False, {"hooks.internal"})
    assert [str(one) for one in found.networks] == ["10.1.0.0/16", "::1/128"]


@pytest.mark.parametrize("given", ["10.1.0.1/16", "true,10.0.0.0/8", "https://hooks.internal", "a b"])
def test_private_targets_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("PRIVATE", given)
    with pytest.raises(ImproperlyConfigured, match="PRIVATE has"):
        env.private_targets("PRIVATE")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("smtp://mail", ("mail", 25, "", "", False, False)),
        ("smtp://ada:p%40ss@mail:2525/?tls=true", ("mail", 2525, "ada", "p@ss", False, True)),
        ("smtp://mail/?tls=true", ("mail", 587, "", "", False, True)),
        ("smtps://ada:x@mail/", ("mail", 465, "ada", "x", True, False)),
    ],
)
def test_the_mail_server_is_read_from_its_address(monkeypatch: pytest.MonkeyPatch, given: str, expected: tuple) -> None:
    monkeypatch.setenv("MAIL", given)
    names = ("HOST", "PORT", "HOST_USER", "HOST_PASSWORD", "USE_SSL", "USE_TLS")
    assert env.mail_server("MAIL") == {f"EMAIL_{name}": value for name, value in zip(names, expected, strict=True)}


@pytest.mark.parametrize(
    "given", ["mail:25", "http://mail", "smtp://", "smtp://mail/?tls=1", "smtp://mail:x", "smtp://m/?a"]
)
def test_a_mail_server_that_cannot_be_read_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("MAIL", given.replace("://", "://ada:secret@"))
    with pytest.raises(ImproperlyConfigured, match="MAIL") as refused:
        env.mail_server("MAIL")
    assert "secret" not in str(refused.value)


def test_without_a_mail_server_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAIL", raising=False)
    assert env.mail_server("MAIL") == {}


def test_who_mails_come_from_is_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDER", "Audit <audit@example.com>")
    assert env.mail_sender("SENDER", "x@y.z") == "Audit <audit@example.com>"
    monkeypatch.delenv("SENDER")
    assert env.mail_sender("SENDER", "x@y.z") == "x@y.z"
    for given in ("audit", "a@b.c\nBcc: all@example.com"):
        monkeypatch.setenv("SENDER", given)
        with pytest.raises(ImproperlyConfigured, match="SENDER is"):
            env.mail_sender("SENDER", "x@y.z")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", {}),
        ("{}", {}),
        ('{"crew": "reviewer"}', {"crew": ["reviewer"]}),
        ('{"CN=crew,OU=x": ["viewer", "admin@acme"]}', {"CN=crew,OU=x": ["viewer", "admin@acme"]}),
    ],
)
def test_lists_by_name_are_texts_or_lists(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: dict[str, list[str]]
) -> None:
    monkeypatch.setenv("ROLES", given)
    assert env.lists_by_name("ROLES") == expected


@pytest.mark.parametrize(
    "given",
    ["crew=reviewer", "[]", "7", '"a"', '{"a": 7}', '{"a": [7]}', '{"a": null}', '{"a": {"admin": 1}}', "[" * 9999],
)
def test_lists_by_name_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("ROLES", given)
    with pytest.raises(ImproperlyConfigured, match="ROLES cannot be read: write it as a JSON object"):
        env.lists_by_name("ROLES")


@pytest.mark.parametrize("name", ["run#1", "what?", "100%25", "my data", "données"])
def test_the_database_is_in_the_data_folder_whatever_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    found = env.databases(tmp_path / name)["default"]["NAME"]
    assert found == str(tmp_path / name / "handoffaudit.sqlite3")


def test_the_log_of_sqlite_shrinks_after_a_long_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(env, "MOST_KEPT_LOG", 100_000)
    options = env.databases(tmp_path)["default"]["OPTIONS"]
    file, log = tmp_path / "x.sqlite3", tmp_path / "x.sqlite3-wal"
    with closing(sqlite3.connect(file)) as writer, closing(sqlite3.connect(file)) as reader:
        writer.executescript(options["init_command"])
        writer.execute("CREATE TABLE notes (text TEXT)")
        reader.execute("BEGIN")
        reader.execute("SELECT 1 FROM notes").fetchone()
        for _ in range(10):
            with writer:
                writer.execute("INSERT INTO notes VALUES (?)", ["x" * 1_000_000])
        assert log.stat().st_size > 5_000_000
        reader.rollback()
        writer.execute("PRAGMA wal_checkpoint")
        with writer:
            writer.execute("INSERT INTO notes VALUES ('short')")
        assert log.stat().st_size <= 100_000


def test_parameters_of_a_database_address_reach_postgresql(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without them, a connection that must be encrypted (`sslmode`) would fall back to plain text."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://ada@db/audit?sslmode=verify-full&sslrootcert=/ca.pem")
    monkeypatch.setenv("DATABASE_REPLICA_URL", "postgresql://ada@copy/audit?sslmode=require&connect_timeout=90")
    found = env.databases(tmp_path)
    own, copy = found["default"]["OPTIONS"], found["replica"]["OPTIONS"]
    assert (own["sslmode"], own["sslrootcert"], copy["sslmode"]) == ("verify-full", "/ca.pem", "require")
    assert copy["connect_timeout"] == own["connect_timeout"] == 3, "waits stay limited"
