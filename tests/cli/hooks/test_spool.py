"""Tests of the files of the spool: their order, their locks, and their cleanup."""

import json
import os
import time

import pytest

from handoffaudit.cli.hook_spool import Entry, Spool, SpoolFull

MIB = 1024 * 1024


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool", MIB)


def add(spool, name, body="{}"):
    held = spool.add(Entry(name, body))
    held.release()
    return held.path


def ids(spool):
    return [json.loads(path.read_text())["id"] for path in spool.list_waiting()]


def test_the_order_is_that_of_reading_also_where_the_clock_goes_back(spool, monkeypatch):
    add(spool, "a")
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    add(spool, "b")
    monkeypatch.undo()
    add(spool, "c")
    assert ids(spool) == ["a", "b", "c"]


def test_an_entry_is_one_processs_at_a_time(spool):
    held = spool.add(Entry("a", "{}"))
    assert spool.take(held.path) is None
    held.release()
    taken = spool.take(held.path)
    assert taken.entry == Entry("a", "{}")
    taken.remove()
    assert spool.take(held.path) is None
    assert spool.list_waiting() == []


def test_a_rewritten_entry_keeps_its_place_and_its_owner(spool):
    first = spool.add(Entry("a", "1"))
    add(spool, "b")
    first.rewrite(Entry("a", "2"))
    assert spool.take(first.path) is None
    first.release()
    assert ids(spool) == ["a", "b"]
    assert spool.take(first.path).entry == Entry("a", "2")


def test_the_size_counts_what_was_set_aside_and_small_files_as_what_they_take(tmp_path):
    spool = Spool(tmp_path / "spool", 3 * 4096)
    spool.add(Entry("a", "{}")).set_aside("no")
    # the two locks and the new one are files, too
    with pytest.raises(SpoolFull, match="holds more than"):
        spool.add(Entry("b", "{}"))
    assert spool.list_waiting() == []
    assert spool.aside() == 1
    assert not list(spool.folder.glob("*.draft"))


def test_what_a_dead_process_left_half_written_is_cleared_away(spool):
    add(spool, "a")
    left = [spool.folder / "1-dead.draft", spool.folder / "2-young.draft"]
    for path in left:
        path.write_text('{"id": "ha')
    os.utime(left[0], (1, 1))
    add(spool, "b")
    assert [path.exists() for path in left] == [False, True]
    assert ids(spool) == ["a", "b"]


def test_what_is_set_aside_keeps_its_content_and_says_why(spool):
    path = spool.add(Entry("a", "{}")).set_aside("413: Too large")
    assert json.loads(path.read_text()) == {"reason": "413: Too large", "id": "a", "body": "{}"}
    # moved back, it is an entry again
    path.rename(spool.folder / path.name)
    assert spool.take(spool.list_waiting()[0]).entry == Entry("a", "{}")
