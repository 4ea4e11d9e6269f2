"""Tests of deleted log lines: their counts stay, and the same lines are not counted again."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import search, store
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.diagnostics.models import LogBlock, LogText
from handoffaudit.policy.retention import Data
from tests.diagnostics.logs.support import counted, gate_lines, health, health_line, send, told
from tests.diagnostics.retention.support import aged_blocks, keep, newest_run, run_all

pytestmark = pytest.mark.django_db
BAD = b"this is not a line of any kind\n"


def removed(tenant: Tenant) -> None:
    aged_blocks(tenant, 40)
    keep(tenant, logs=30)
    run_all()


def test_lines_go_and_counts_stay(tenant: Tenant) -> None:
    made = send(tenant, gate_lines(0, 99) + health_line(1) + BAD)
    before, was = counted(tenant), told(made)
    removed(tenant)
    assert not LogText.objects.exists()
    assert (counted(tenant), health(tenant), told(made)) == (before, {"file_missing": 1}, was)
    assert newest_run(tenant, Data.LOGS).number == 102
    assert search.search_lines(tenant, LogQuery()).items == []
    assert store.list_bad_lines(made).items == []


def test_lines_of_late_stay(tenant: Tenant) -> None:
    send(tenant, gate_lines(0, 9))
    aged_blocks(tenant, 29)
    keep(tenant, logs=30)
    run_all()
    assert len(search.search_lines(tenant, LogQuery()).items) == 10


def test_the_same_log_sent_again_counts_nothing(tenant: Tenant) -> None:
    log = gate_lines(0, 9_000) + BAD
    send(tenant, log)
    assert LogBlock.objects.count() > 2
    before = counted(tenant)
    removed(tenant)
    for here in (True, False):
        send(tenant, log, here=here)
        assert counted(tenant) == before
    assert not LogText.objects.exists()


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("first", [9, 7_000])
def test_a_log_that_grew_counts_what_is_new_and_keeps_only_that(tenant: Tenant, first: int, here: bool) -> None:
    send(tenant, gate_lines(0, first), here=here)
    removed(tenant)
    for last in (first + 10, first + 20, first + 5_000):
        for _ in range(2):
            send(tenant, gate_lines(0, last), here=here)
            assert counted(tenant) == {"gate": last + 1}
    lines = search.search_lines(tenant, LogQuery(), limit=20_000)
    assert {line.number for line in lines.items} <= set(range(first + 2, first + 5_002))
    assert lines.items[0].number == first + 5_001


def test_a_log_that_grew_and_lost_its_last_end_counts_that_line_once(tenant: Tenant) -> None:
    send(tenant, gate_lines(0, 9).removesuffix(b"\n"))
    removed(tenant)
    send(tenant, gate_lines(0, 12))
    assert counted(tenant) == {"gate": 13}


def test_a_log_that_lost_its_head_counts_what_is_new(tenant: Tenant) -> None:
    send(tenant, gate_lines(0, 9_000))
    removed(tenant)
    send(tenant, gate_lines(100, 9_010))
    assert counted(tenant) == {"gate": 9_011}


def test_an_end_that_grew_of_late_keeps_its_lines(tenant: Tenant) -> None:
    send(tenant, gate_lines(0, 9))
    aged_blocks(tenant, 40)
    send(tenant, gate_lines(0, 19))
    keep(tenant, logs=30)
    run_all()
    assert len(search.search_lines(tenant, LogQuery()).items) == 20
