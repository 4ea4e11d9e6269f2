"""Blocks read by workers: claimed, counted once, parked where they can't be read."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import reading, storing
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from tests.diagnostics.logs.support import counted, gate_lines


@pytest.fixture
def waiting(tenant: Tenant) -> LogImport:
    return storing.take(tenant, "app.log", "a test", [gate_lines(1, 10_000)])


def run_out() -> None:
    LogBlock.objects.filter(parsed_at=None).update(claim_expires_at=timezone.now() - timedelta(seconds=1))


def test_what_is_stored_waits_and_is_read_once(waiting: LogImport, tenant: Tenant) -> None:
    assert reading.anything_waits()
    assert reading.drain()
    assert not reading.anything_waits()
    assert reading.drain()
    assert counted(tenant) == {"gate": 10_000}


def test_two_workers_take_different_blocks(waiting: LogImport) -> None:
    first, second = reading.claim(2, uuid.uuid4()), reading.claim(2, uuid.uuid4())
    assert len({block.pk for block in (*first, *second)}) == len(first) + len(second) > 2


def test_what_a_killed_worker_had_is_read_by_another(waiting: LogImport, tenant: Tenant) -> None:
    taken = reading.claim(100, uuid.uuid4())
    assert taken
    assert not reading.anything_waits()
    run_out()
    assert reading.anything_waits()
    late = [reading.read(block, gate_lines(1, 1)) for block in taken]
    assert reading.drain()
    assert counted(tenant) == {"gate": 10_000}
    reading.store(late)
    assert counted(tenant) == {"gate": 10_000}


def test_a_block_that_can_not_be_read_is_parked_and_said(waiting: LogImport, tenant: Tenant, settings) -> None:
    settings.CLAIM_TRIES = 2
    block = LogBlock.objects.earliest("first_line")
    LogText.objects.filter(block=block).update(packed=b"damaged")
    for _ in range(4):
        reading.drain()
        run_out()
    assert not reading.anything_waits()
    waiting.refresh_from_db()
    assert waiting.finished_at
    assert waiting.error == f"Lines 1 to {block.lines:,} could not be read in 2 tries and are not counted."
    assert counted(tenant) == {"gate": 10_000 - block.lines}


def test_it_stops_in_time_and_says_so(waiting: LogImport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CLAIMED_AT_ONCE", 1)
    assert not reading.drain(-1.0)
    assert LogBlock.objects.filter(parsed_at=None).exists()
    assert LogBlock.objects.exclude(parsed_at=None).count() == 1
