"""Tests of the backup of a database that is written to meanwhile, and of an interrupted backup."""

import contextlib
import shutil
import sqlite3
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from handoffaudit.cli import Stop, upkeep
from handoffaudit.cli.bootstrap import refuse_no_data
from handoffaudit.cli.terminal import DATABASE_FILE

ROWS = 2000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a data folder with a database of some hundred pages, which the backup copies one by one."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HANDOFFAUDIT_DATA", str(tmp_path))
    monkeypatch.setattr(upkeep, "PAGES", 1)
    with sqlite3.connect(tmp_path / DATABASE_FILE) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE notes (text TEXT)")
        database.executemany("INSERT INTO notes VALUES (?)", [("x" * 1000,)] * ROWS)
    database.close()
    return tmp_path


def _write_on_each_look(folder, monkeypatch, most):
    """Write to the database by another connection each time the backup has copied some pages."""
    looks, checked = [], []

    class Writer:
        def update(self, said):
            looks.append(said())
            if len(looks) > most:
                raise KeyboardInterrupt
            with sqlite3.connect(folder / DATABASE_FILE, timeout=0) as other:
                other.execute("UPDATE notes SET text = ? WHERE rowid = 1", (str(len(looks)),))
            other.close()

        def finish(self):
            pass

        def during(self, describe):
            checked.append(describe())
            return contextlib.nullcontext()

    monkeypatch.setattr(upkeep, "ProgressLine", Writer)
    return looks, checked


def test_it_ends_while_others_write_without_waiting_and_is_as_when_it_began(folder, monkeypatch):
    looks, checked = _write_on_each_look(folder, monkeypatch, most=ROWS)
    done = CliRunner().invoke(upkeep.backup, [str(folder / "kept")])
    assert (done.exit_code, looks[-1]) == (0, "100 % copied")
    assert checked == ["100 % copied, checking the copy"]
    copy = sqlite3.connect(folder / "kept")
    assert copy.execute("SELECT count(*), max(length(text)), min(length(text)) FROM notes").fetchone() == (
        ROWS,
        1000,
        1000,
    )
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    copy.close()


def test_it_touches_no_file_that_is_there_and_is_for_its_owner_alone(folder):
    (folder / "kept.part").write_text("mine")
    assert CliRunner().invoke(upkeep.backup, [str(folder / "kept")]).exit_code == 0
    assert (folder / "kept.part").read_text() == "mine"
    assert (folder / "kept").stat().st_mode & 0o777 == 0o600
    for taken in (".", "/", "", str(folder / "kept")):
        refused = CliRunner().invoke(upkeep.backup, [taken])
        assert "is there already" in str(refused.exception), taken


def test_a_missing_folder_is_named_with_what_to_do(folder):
    copy = folder / "backups" / "copy.sqlite3"
    result = CliRunner().invoke(upkeep.backup, [str(copy)])
    said = f"{copy} can't be written (No such file or directory): create its folder, or name a file elsewhere."
    assert str(result.exception) == said


def test_broken_off_it_leaves_nothing(folder, monkeypatch):
    _write_on_each_look(folder, monkeypatch, most=3)
    done = CliRunner().invoke(upkeep.backup, [str(folder / "kept")])
    assert done.exit_code == 1
    assert not [path.name for path in folder.iterdir() if path.name.startswith("kept")]


def _damage(path):
    """Overwrite some pages in the middle of the file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 3 * 4096)


def test_a_damaged_copy_is_an_error_and_is_not_left_behind(folder):
    _damage(folder / DATABASE_FILE)
    done = CliRunner().invoke(upkeep.backup, [str(folder / "kept")], standalone_mode=False)
    assert isinstance(done.exception, Stop)
    assert done.exception.message.startswith(f"No backup was written, because the database {folder / DATABASE_FILE} is")
    assert "restore a backup" in done.exception.message
    assert not [path for path in folder.iterdir() if path.name.startswith("kept")]


def test_the_sqlite_file_of_an_address_is_backed_up(folder, monkeypatch):
    (folder / DATABASE_FILE).rename(folder / "own.sqlite3")
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{folder / 'own.sqlite3'}")
    assert CliRunner().invoke(upkeep.backup, [str(folder / "kept")]).exit_code == 0
    with sqlite3.connect(folder / "kept") as copy:
        assert copy.execute("SELECT count(*) FROM notes").fetchone() == (ROWS,)
    copy.close()


def test_an_address_that_the_settings_refuse_is_not_taken_for_postgresql(folder, monkeypatch):
    def refuse():
        raise Stop("DATABASE_URL cannot be read.")

    monkeypatch.setenv("DATABASE_URL", "sqlite3:///typo")
    monkeypatch.setattr(upkeep, "start_django", refuse)
    done = CliRunner().invoke(upkeep.backup, [str(folder / "kept")])
    assert str(done.exception) == "DATABASE_URL cannot be read."


def test_a_command_makes_no_database_at_a_wrong_address(folder, monkeypatch):
    missing = folder / "typo.sqlite3"
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{missing}")
    with pytest.raises(Stop, match=r"typo\.sqlite3: correct DATABASE_URL"):
        refuse_no_data()
    assert not missing.exists()


def test_a_disk_without_room_is_named_with_what_to_do(folder, monkeypatch):
    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(upkeep, "_copy", fail)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    copy = folder / "copy.sqlite3"
    said = str(CliRunner().invoke(upkeep.backup, [str(copy)]).exception)
    assert said.startswith(
        f"{copy} can't be written (disk I/O error): 0 MB are free in {folder}, and the database has "
    )
    assert said.endswith(" MB: make room, or name a file on another disk.")


def test_a_folder_that_cannot_be_reached_is_one_line(folder):
    loop = folder / "loop"
    loop.symlink_to(loop)
    done = CliRunner().invoke(upkeep.backup, [str(loop / "copy.sqlite3")])
    assert isinstance(done.exception, Stop)
    assert "can't be written" in done.exception.message
