"""Tests that damage of an SQLite file is found in bounded time, and that nothing else is reported as damage."""

import sqlite3
from pathlib import Path

import pytest
from django.db import DatabaseError

from handoffaudit import database_faults, sqlite_file
from handoffaudit.sqlite_file import find_damage, is_damage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE notes (text TEXT)")
        database.executemany("INSERT INTO notes VALUES (?)", [("x" * 1000,)] * 200)
    database.close()
    return path


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 3 * 4096)


def test_a_whole_file_an_absent_one_and_one_that_is_busy_are_not_damaged(file: Path) -> None:
    assert find_damage(file) == find_damage(file, thorough=True) == find_damage(file.with_name("none")) == ""
    with sqlite3.connect(file) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert find_damage(file, seconds=1) == ""
    writer.close()


def test_damaged_pages_are_found(file: Path) -> None:
    damage(file)
    assert find_damage(file, seconds=5)
    assert "\n" not in find_damage(file, thorough=True)


def test_what_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"not a database" * 100)
    assert find_damage(path) == "file is not a database"


def test_the_look_ends_in_time(file: Path, monkeypatch) -> None:
    damage(file)
    monkeypatch.setattr(sqlite_file, "_STEPS", 1)
    assert find_damage(file, seconds=0) == ""


def test_an_error_that_was_caused_by_damage_is_told_from_others(file: Path) -> None:
    damage(file)
    with pytest.raises(sqlite3.DatabaseError) as raised, sqlite3.connect(file) as database:
        database.execute("SELECT sum(length(text)) FROM notes").fetchone()
    outer = DatabaseError("as Django wraps it")
    outer.__cause__ = raised.value
    assert is_damage(outer)
    assert not is_damage(sqlite3.OperationalError("disk full"))
    assert not is_damage(None)


def test_readiness_looks_at_the_file_once_in_a_while(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(database_faults.connection, "vendor", "sqlite")
    monkeypatch.setitem(database_faults.connection.settings_dict, "NAME", str(file))
    looks = database_faults.DamageWatch()
    assert not looks.is_there()
    damage(file)
    assert not looks.is_there()
    looks._look_at = 0
    assert looks.is_there()
