"""Tests of blocks that workers read: leased, counted once, and parked when unreadable."""

import uuid
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import index, store
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from tests.diagnostics.logs.support import counted, gate_lines, send
from tests.handoffs.support import find_disk_full


@pytest.fixture
def waiting(tenant: Tenant) -> LogImport:
    return store.store_log(tenant, "app.log", "a test", [gate_lines(1, 10_000)])


def run_out() -> None:
    LogBlock.objects.filter(parsed_at=None).update(claim_expires_at=timezone.now() - timedelta(seconds=1))


def test_what_is_stored_waits_and_is_read_once(waiting: LogImport, tenant: Tenant) -> None:
    assert index.anything_waits()
    assert index.drain()
    assert not index.anything_waits()
    assert index.drain()
    assert counted(tenant) == {"gate": 10_000}


def test_two_workers_take_different_blocks(waiting: LogImport) -> None:
    first, second = index.lease_blocks(2, uuid.uuid4()), index.lease_blocks(2, uuid.uuid4())
    assert len({block.pk for block in (*first, *second)}) == len(first) + len(second) > 2


def test_what_a_killed_worker_had_is_read_by_another(waiting: LogImport, tenant: Tenant) -> None:
    taken = index.lease_blocks(100, uuid.uuid4())
    assert taken
    assert not index.anything_waits()
    run_out()
    assert index.anything_waits()
    late = [index.read_block(block, gate_lines(1, 1)) for block in taken]
    assert index.drain()
    assert counted(tenant) == {"gate": 10_000}
    index.store_summaries(late)
    assert counted(tenant) == {"gate": 10_000}


def test_a_block_that_can_not_be_read_is_parked_and_said(waiting: LogImport, tenant: Tenant, settings) -> None:
    settings.LEASE_TRIES = 2
    block = LogBlock.objects.earliest("first_line")
    LogText.objects.filter(block=block).update(packed=b"damaged")
    for _ in range(4):
        index.drain()
        run_out()
    assert not index.anything_waits()
    waiting.refresh_from_db()
    assert waiting.finished_at
    assert waiting.error == f"Lines 1 to {block.lines:,} could not be read in 2 tries and are not counted."
    assert counted(tenant) == {"gate": 10_000 - block.lines}


def test_a_full_disk_counts_no_try_of_a_block(waiting: LogImport, tenant: Tenant, monkeypatch, settings) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(index, "count_blocks", find_disk_full)
        for _ in range(2 * settings.LEASE_TRIES):
            with pytest.raises(OperationalError):
                index.drain()
            run_out()
    assert set(LogBlock.objects.values_list("tries", flat=True)) == {0}
    assert index.drain()
    assert counted(tenant) == {"gate": 10_000}


def test_it_stops_in_time_and_says_so(waiting: LogImport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LEASED_AT_ONCE", 1)
    assert not index.drain(-1.0)
    assert LogBlock.objects.filter(parsed_at=None).exists()
    assert LogBlock.objects.exclude(parsed_at=None).count() == 1


def test_a_parked_block_is_counted_whole_when_its_log_grows(tenant: Tenant, settings) -> None:
    log = gate_lines(1, 5)
    store.store_log(tenant, "app.log", "a test", [log[:-8]])
    LogBlock.objects.update(claim=uuid.uuid4(), tries=settings.LEASE_TRIES)
    run_out()
    assert index.park_exhausted() == 1
    send(tenant, log + gate_lines(6, 9))
    assert counted(tenant) == {"gate": 9}
