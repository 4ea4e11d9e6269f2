"""Tests that lines are appended whole, whatever happens to the file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handoffaudit.handoffs.event_log import AppendedFile


def test_each_line_stands_alone(tmp_path: Path) -> None:
    file = tmp_path / "events.log"
    AppendedFile(file).write(["one", "two"])
    AppendedFile(file).write(["three"])
    assert file.read_text() == "one\ntwo\nthree\n"
    assert file.stat().st_mode & 0o007 == 0


WRITER = """
import sys, django
from pathlib import Path
django.setup()
from handoffaudit.handoffs.event_log import AppendedFile
appending = AppendedFile(Path(sys.argv[1]))
for _ in range(200):
    appending.write([sys.argv[2] * 2000])
"""


def test_processes_do_not_mix_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "events.log"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = file.read_text().splitlines()
    assert sorted(found) == sorted([name * 2000 for name in "abc"] * 200)


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "events.log"
    appending = AppendedFile(file)
    appending.write(["one"])
    file.rename(tmp_path / "events.log.1")
    appending.write(["two"])
    file.unlink()
    appending.write(["three"])
    assert (tmp_path / "events.log.1").read_text() == "one\n"
    assert file.read_text() == "three\n"


def test_what_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "events.log"
    os.mkfifo(file)
    appending = AppendedFile(file)
    for _ in range(3):
        appending.write(["lost"])
    assert len(caplog.records) == 1
    file.unlink()
    appending.write(["one"])
    assert file.read_text() == "one\n"
    file.unlink()
    file.mkdir()
    appending.write(["lost"])
    assert len(caplog.records) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    appending = AppendedFile(Path("/dev/full"))
    appending.write(["lost"])
    appending.write(["lost"])
    assert len(caplog.records) == 1


def test_a_line_that_was_cut_off_ends_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.log"
    appending = AppendedFile(file)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, raw: write(descriptor, raw[:2]))
    appending.write(["first"])
    monkeypatch.undo()
    appending.write(["second"])
    assert file.read_text() == "fi\nsecond\n"
