"""Tests of large logs: the request stores parts, and a worker stores each line once."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import index, store, upload
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogPart
from tests.diagnostics.logs.support import counted, gate_lines, stored, told
from tests.handoffs.support import find_disk_full

PIECE = 50_000
LOG = gate_lines(1, 20_000)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "INLINE_BYTES", 100_000)
    monkeypatch.setattr(upload, "PART_BYTES", 200_000)


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PIECE] for at in range(0, len(data), PIECE))


def receive(tenant: Tenant, data: bytes, source: str = "app.log") -> LogImport:
    return upload.receive_log(tenant, source, "a test", pieces(data), keep_broken=True)


def finished(made: LogImport) -> LogImport:
    assert upload.drain()
    assert index.drain()
    made.refresh_from_db()
    return made


def blocks() -> list[tuple[object, ...]]:
    return list(
        LogBlock.objects.order_by("first_line").values_list("digest", "occurrence", "first_line", "lines", "tail")
    )


def test_a_small_log_is_stored_at_once(tenant: Tenant) -> None:
    made = receive(tenant, gate_lines(1, 50))
    assert (made.lines, upload.count_unstored_bytes([made])) == (50, {})
    assert not LogPart.objects.exists()


def test_a_large_log_is_stored_by_a_worker_as_if_it_had_been_stored_at_once(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    made = receive(tenant, LOG)
    assert (made.size, made.lines, upload.count_unstored_bytes([made])) == (len(LOG), 0, {made.pk: len(LOG)})
    assert made.received_at
    assert not LogBlock.objects.exists()
    assert upload.anything_waits()
    assert told(finished(made)) == {"lines": 20_000, "known": 0, "read": 20_000, "bad": 0}
    assert made.finished_at
    assert not upload.anything_waits()
    assert not LogPart.objects.exists()
    assert stored(tenant) == LOG
    by_parts = blocks()
    LogBlock.objects.all().delete()
    store.store_log(other_tenant, "app.log", "a test", pieces(LOG))
    assert blocks() == by_parts


def test_a_large_log_sent_again_or_grown_counts_what_is_new(tenant: Tenant) -> None:
    finished(receive(tenant, LOG))
    again = finished(receive(tenant, LOG + gate_lines(20_001, 22_000)))
    assert told(again) == {"lines": 22_000, "known": 20_000, "read": 2_000, "bad": 0}
    assert counted(tenant) == {"gate": 22_000}


def test_a_first_line_that_is_longer_than_a_part_is_one_bad_line(tenant: Tenant) -> None:
    long = b"x" * 500_000
    made = finished(receive(tenant, long + b"\n" + gate_lines(1, 500)))
    assert (told(made), made.error) == ({"lines": 501, "known": 0, "read": 500, "bad": 1}, "")
    assert told(finished(receive(tenant, long, "one line"))) == {"lines": 1, "known": 0, "read": 0, "bad": 1}


def test_equal_blocks_in_several_parts_are_told_apart(tenant: Tenant) -> None:
    log = b"x\n" * 300_000
    assert finished(receive(tenant, log)).bad == 300_000
    assert finished(receive(tenant, log)).known == 300_000
    assert counted(tenant) == {"bad": 300_000}


@pytest.mark.parametrize("dies_at", [0, 2])
def test_what_a_killed_worker_left_is_continued_and_counted_once(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """The worker dies before the commit of a part, while its lease is still valid."""
    made = receive(tenant, LOG)
    add = store.LogWriter.add
    done = []

    def dying(*arguments: object) -> None:
        note = arguments[-1]

        def die(digests: list[str], shift: int) -> None:
            note(digests, shift)  # type: ignore[operator]
            raise SystemExit

        done.append(1)
        add(*arguments[:-1], die if len(done) > dies_at else note)  # type: ignore[arg-type]

    monkeypatch.setattr(store.LogWriter, "add", dying)
    with pytest.raises(SystemExit):
        upload.drain()
    monkeypatch.undo()
    assert LogPart.objects.filter(stored_at=None, claim__isnull=False).count() == 1
    assert upload.lease_part(made.pk) is None
    LogPart.objects.update(claim_expires_at=timezone.now() - timedelta(seconds=1))
    assert told(finished(made)) == {"lines": 20_000, "known": 0, "read": 20_000, "bad": 0}
    assert stored(tenant) == LOG


def test_a_part_that_can_not_be_stored_is_given_up_and_said(tenant: Tenant, settings) -> None:
    made = receive(tenant, LOG)
    LogPart.objects.filter(number=1).update(
        tries=settings.LEASE_TRIES, claim=made.pk, claim_expires_at=timezone.now() - timedelta(seconds=1)
    )
    finished(made)
    assert "could not be stored in 3 tries" in made.error
    assert made.finished_at
    assert not upload.anything_waits()


def test_a_full_disk_counts_no_try_of_a_part(tenant: Tenant, monkeypatch: pytest.MonkeyPatch, settings) -> None:
    made = receive(tenant, LOG)
    with monkeypatch.context() as patch:
        patch.setattr(store.LogWriter, "add", find_disk_full)
        for _ in range(2 * settings.LEASE_TRIES):
            with pytest.raises(OperationalError):
                upload.drain()
            LogPart.objects.filter(stored_at=None).exclude(tries=0, claim_expires_at=None).update(
                claim_expires_at=timezone.now() - timedelta(seconds=1)
            )
    assert told(finished(made)) == {"lines": 20_000, "known": 0, "read": 20_000, "bad": 0}
    assert stored(tenant) == LOG


def test_of_one_log_one_import_is_stored_at_a_time_the_oldest_first(tenant: Tenant) -> None:
    first, second, other = receive(tenant, LOG), receive(tenant, LOG), receive(tenant, LOG, "other.log")
    leased = [upload.lease_part(one.pk) for one in (first, second, other)]
    assert [part.imported if part else None for part in leased] == [first, other, None]


@pytest.mark.parametrize("keep", [True, False])
def test_a_log_that_breaks_off_is_kept_or_left_out(tenant: Tenant, keep: bool) -> None:
    def broken() -> Iterator[bytes]:
        yield from pieces(LOG)
        raise OSError("it is cut")

    with pytest.raises(OSError, match="it is cut"):
        upload.receive_log(tenant, "app.log", "a test", broken(), keep_broken=keep)
    if not keep:
        assert not LogImport.objects.exists()
        return
    made = finished(LogImport.objects.get())
    assert (made.lines, made.error, made.received_at) == (20_000, "The import broke off: it is cut", None)


def test_what_a_server_left_when_it_ended_is_stored_later(tenant: Tenant) -> None:
    made = receive(tenant, LOG)
    LogImport.objects.update(received_at=None)
    assert upload.drain()
    assert not LogBlock.objects.exists()
    LogImport.objects.update(started_at=timezone.now() - 2 * upload.ABANDONED)
    assert upload.anything_waits()
    assert finished(made).lines == 20_000
    assert "the process that received it ended" in made.error


def test_an_import_whose_process_was_killed_ends_after_a_day(tenant: Tenant) -> None:
    killed = store.begin_import(tenant, "app.log", "a test")
    for age, ends in ((2 * upload.ABANDONED, False), (upload.STOPPED + upload.ABANDONED, True)):
        LogImport.objects.update(started_at=timezone.now() - age)
        assert upload.anything_waits() is ends
        upload.drain()
        killed.refresh_from_db()
        assert bool(killed.error) is ends
    assert not upload.anything_waits()


def test_an_import_that_still_runs_after_a_day_goes_on(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BATCH_BLOCKS", 1)

    def slow() -> Iterator[bytes]:
        yield gate_lines(1, 20_000)
        for is_idle in (False, True):
            LogImport.objects.update(started_at=timezone.now() - 2 * upload.STOPPED)
            if is_idle:
                LogBlock.objects.all().delete()
            upload.drain()
            errors.append(LogImport.objects.get().error)

    errors: list[str] = []
    made = store.store_log(tenant, "app.log", "a test", slow(), read_here=True)
    assert [bool(error) for error in errors] == [False, True]
    assert (made.error, bool(made.finished_at)) == ("", True)
