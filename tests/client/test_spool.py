"""Tests of the spool: its bounds, its files, and who adopts them."""

import os
import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from handoffaudit_client import Client
from handoffaudit_client.spool import MemorySpool, Spool
from handoffaudit_client.spool_files import make_private, usual_folder
from handoffaudit_client.testing import FakeServer

LINE = b"x" * 99


def contents(spool: Spool | MemorySpool) -> list[bytes]:
    """Return all lines, each read once."""
    found: list[bytes] = []
    while batch := spool.next_batch(7, 10_000):
        found += batch.lines
        spool.finish(batch)
    return found


def numbered(number: int, *, start: int = 0) -> list[bytes]:
    return [b"%04d" % one for one in range(start, start + number)]


def fill(spool: Spool | MemorySpool, lines: list[bytes]) -> None:
    for line in lines:
        spool.append(line)


def size_of(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.iterdir())


@pytest.fixture(params=["disk", "memory"])
def spool(request: pytest.FixtureRequest, tmp_path: Path) -> Spool | MemorySpool:
    return Spool(tmp_path) if request.param == "disk" else MemorySpool()


@pytest.fixture(autouse=True)
def private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def test_lines_come_out_in_their_order(spool: Spool | MemorySpool) -> None:
    fill(spool, numbered(50))
    assert spool.waiting() == 50
    assert not spool.has_settled(50)
    assert contents(spool) == numbered(50)
    assert spool.has_settled(spool.appended)
    assert spool.waiting() == 0


def test_a_batch_that_is_not_finished_comes_again(spool: Spool | MemorySpool) -> None:
    fill(spool, numbered(5))
    first, second = spool.next_batch(3, 1000), spool.next_batch(3, 1000)
    assert first is not None
    assert second is not None
    assert first.lines == second.lines == numbered(3)


def test_one_line_longer_than_a_batch_comes_out(spool: Spool | MemorySpool) -> None:
    fill(spool, [b"x" * 5000, b"y"])
    batch = spool.next_batch(10, 100)
    assert batch is not None
    assert batch.lines[0] == b"x" * 5000


@pytest.mark.parametrize("limit", [1_000, 10_000])
def test_a_full_spool_drops_the_oldest_and_counts(tmp_path: Path, limit: int) -> None:
    for spool in (Spool(tmp_path, limit), MemorySpool(limit)):
        fill(spool, [b"%099d" % number for number in range(1000)])
        kept = contents(spool)
        assert limit / 2 < len(kept) * 100 <= limit + 100
        assert kept == [b"%099d" % number for number in range(1000)][-len(kept) :]
        assert spool.dropped == 1000 - len(kept)


def test_the_disk_is_bounded_while_lines_are_added(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 20_000)
    sizes = []
    for _ in range(2_000):
        spool.append(LINE)
        sizes.append(size_of(tmp_path))
    # The lock file has 42 bytes.
    assert 15_000 < max(sizes) <= 20_000 + 42 + 100


def test_lines_that_arrived_while_they_were_dropped_are_not_counted_as_dropped(tmp_path: Path) -> None:
    for spool in (Spool(tmp_path, 1_000), MemorySpool(1_000)):
        fill(spool, [LINE] * 4)
        batch = spool.next_batch(4, 10_000)
        assert batch is not None
        fill(spool, [LINE] * 20)
        spool.finish(batch)
        assert spool.dropped + len(contents(spool)) + len(batch.lines) == 24


def test_the_files_go_when_all_is_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 10_000)
    fill(spool, [LINE] * 50)
    contents(spool)
    assert [one.suffix for one in tmp_path.iterdir()] == [".lock"]
    fill(spool, numbered(3))
    assert contents(spool) == numbered(3)
    spool.close()
    assert list(tmp_path.iterdir()) == []


def leave(folder: Path, lines: list[bytes], *, sent: int = 0) -> None:
    """Leave the lines in a spool, as a process does that ends."""
    spool = Spool(folder)
    fill(spool, lines)
    if sent:
        batch = spool.next_batch(sent, 1_000_000)
        assert batch is not None
        spool.finish(batch)
    spool.close()


def test_files_of_an_ended_process_are_adopted(tmp_path: Path) -> None:
    leave(tmp_path, numbered(10), sent=4)
    spool = Spool(tmp_path)
    assert spool.adopt() == 6
    assert spool.waiting() == 6
    assert spool.has_settled(spool.appended)
    assert contents(spool) == numbered(6, start=4)
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_living_process_are_left_alone(tmp_path: Path) -> None:
    first, second = Spool(tmp_path), Spool(tmp_path)
    fill(first, numbered(3))
    fill(second, numbered(2))
    assert second.adopt() == first.adopt() == 0
    assert (first.waiting(), second.waiting()) == (3, 2)


def test_only_one_process_adopts(tmp_path: Path) -> None:
    leave(tmp_path, numbered(3))
    first, second = Spool(tmp_path), Spool(tmp_path)
    assert (first.adopt(), second.adopt()) == (3, 0)
    first.close()
    assert second.adopt() == 3


def test_old_and_new_lines_are_sent_in_turn(tmp_path: Path) -> None:
    leave(tmp_path, [b"old"] * 20)
    spool = Spool(tmp_path)
    spool.adopt()
    fill(spool, [b"new"] * 20)
    batches = []
    while batch := spool.next_batch(5, 1000):
        batches.append(batch.lines[0])
        spool.finish(batch)
    assert sorted(batches[:4]) == [b"new", b"new", b"old", b"old"]


def test_what_is_adopted_counts_for_the_bound(tmp_path: Path) -> None:
    for _ in range(5):
        leave(tmp_path, [LINE] * 10)
    spool = Spool(tmp_path, 3_000)
    spool.adopt()
    assert size_of(tmp_path) < 3_500
    fill(spool, [LINE] * 10)
    assert spool.waiting() * 100 <= 3_000
    assert spool.waiting() + spool.dropped == 60


@pytest.mark.parametrize("torn", [b"torn", b"torn" * 1000])
def test_a_torn_last_line_is_left_out(tmp_path: Path, torn: bytes) -> None:
    leave(tmp_path, numbered(3))
    (file,) = tmp_path.glob("*.0*")
    file.write_bytes(file.read_bytes() + torn)
    spool = Spool(tmp_path)
    assert spool.adopt() == 3
    assert contents(spool) == numbered(3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("position", [b"", b"x", b"\xff" * 42, b"9" * 20 + b" " + b"9" * 20, b"1 999999", b"-1 -1"])
def test_a_damaged_position_sends_all_again(tmp_path: Path, position: bytes) -> None:
    leave(tmp_path, numbered(3), sent=1)
    (lock,) = tmp_path.glob("*.lock")
    lock.write_bytes(position)
    spool = Spool(tmp_path)
    spool.adopt()
    assert contents(spool) == numbered(3)


def test_a_file_that_somebody_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    fill(spool, numbered(3))
    for file in tmp_path.glob("*.0*"):
        file.unlink()
    assert contents(spool) == []
    assert spool.dropped == 3
    fill(spool, numbered(2))
    assert contents(spool) == numbered(2)


def test_strangers_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder.lock").mkdir()
    (tmp_path / "link.lock").symlink_to(tmp_path / "notes.txt")
    spool = Spool(tmp_path)
    assert spool.adopt() == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(PermissionError, match="chmod 700"):
        Spool(tmp_path).append(b"x")
    make_private(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("closes", [1, 2])
def test_a_child_of_a_fork_closes_nothing_that_its_parent_has_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closes: int
) -> None:
    """The fork happens while the parent closes its file, and while it closes its lock."""
    spool = Spool(tmp_path / "spool")
    spool.append(b"{}")
    closed: list[int] = []
    in_child: list[int] = []

    def close(descriptor: int) -> None:
        really_close(descriptor)
        closed.append(descriptor)
        if len(closed) == closes:
            child = deepcopy(spool, {id(spool._lock): threading.RLock()})
            with monkeypatch.context() as patch:
                patch.setattr(os, "close", in_child.append)
                child.start_in_child()

    really_close = os.close
    monkeypatch.setattr(os, "close", close)
    spool.close()
    assert (len(closed), len(in_child)) == (2, 2 - closes)
    assert not {*closed[:closes]} & {*in_child}


def test_old_drafts_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "1-a.draft", tmp_path / "2-b.draft"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    Spool(tmp_path).adopt()
    assert list(tmp_path.iterdir()) == [new]


def test_the_folder_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_SPOOL", "/var/spool/agents")
    assert usual_folder() == Path("/var/spool/agents")
    monkeypatch.delenv("HANDOFFAUDIT_SPOOL")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert usual_folder() == Path("/data/handoffaudit/client")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert usual_folder().name == f"handoffaudit-client-{os.getuid()}"


def test_a_full_disk_leaves_no_torn_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    spool.append(b"before")
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:3]))
        with pytest.raises(OSError, match="disk is full"):
            spool.append(b"lost")
    spool.append(b"after")
    assert contents(spool) == [b"before", b"after"]


def test_without_a_folder_the_client_keeps_handoffs_in_memory(
    create: Callable[..., Client], server: FakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    client = create(spool=tmp_path / "file")
    for number in range(20):
        client.send("a", "b", number)
    assert len(server.wait_for(20)) == 20
    assert len(caplog.records) == 1
    assert "unsent items are lost when the process ends" in caplog.text
