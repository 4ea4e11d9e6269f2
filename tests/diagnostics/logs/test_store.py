"""Tests of logs that are sent again: every line is counted once."""

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import store
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.validation.logs import blocks
from tests.diagnostics.logs.support import counted, gate_lines, health, health_line, send, stored, told
from tests.scale import cases

HERE = pytest.mark.parametrize("here", [True, False], ids=["read here", "read by a worker"])
MANY = 20_000


@HERE
def test_each_kind_of_line_is_counted(tenant: Tenant, here: bool) -> None:
    data = (
        health_line(1)
        + b"2026-02-15T00:15:00Z | phase=p | agent=a | handoff_json=found | source=handoff_json\n"
        + gate_lines(1, 3)
        + b'{"trace_id":"t","timestamp":"2026-02-15T00:15:00Z","event":"error"}\n\nbroken\n'
    )
    made = send(tenant, data, here=here)
    assert told(made) == {"lines": 8, "known": 0, "read": 6, "bad": 1}
    assert made.kinds == {"gate": 3, "health": 1, "older": 1, "trace": 1}
    assert counted(tenant) == {"gate": 3, "health": 1, "older": 1, "trace": 1, "bad": 1}
    assert health(tenant) == {"file_missing": 1, "": 1}
    assert made.size == len(data)
    assert made.received_at
    assert made.finished_at


@HERE
def test_a_log_sent_again_counts_nothing(tenant: Tenant, here: bool) -> None:
    data = gate_lines(1, MANY)
    send(tenant, data, here=here)
    number = LogBlock.objects.count()
    again = send(tenant, data, here=here)
    assert told(again) == {"lines": MANY, "known": MANY, "read": 0, "bad": 0}
    assert again.finished_at
    assert counted(tenant) == {"gate": MANY}
    assert LogBlock.objects.count() == number > 3


@HERE
def test_a_log_that_grew_counts_what_is_new(tenant: Tenant, here: bool) -> None:
    for last in (1, 2, 100, 5_000, MANY):
        made = send(tenant, gate_lines(1, last), here=here)
        assert counted(tenant) == {"gate": last}
        assert made.lines - made.known == made.read
    assert stored(tenant) == gate_lines(1, MANY)
    firsts = sorted(LogBlock.objects.values_list("first_line", "lines"))
    assert [first for first, _ in firsts] == [1 + sum(lines for _, lines in firsts[:at]) for at in range(len(firsts))]


@HERE
@pytest.mark.parametrize("lost", cases([1, 50, 3_000], [50]))
def test_a_log_that_lost_its_head_counts_what_is_new(tenant: Tenant, here: bool, lost: int) -> None:
    for size in (4_000, 12_000, MANY):
        send(tenant, gate_lines(1, size), here=here)
        made = send(tenant, gate_lines(lost + 1, size + 10), here=here)
        assert counted(tenant) == {"gate": size + 10}
        assert (made.read, made.bad) == (10, 0)
    assert stored(tenant) == gate_lines(1, MANY + 10)


@HERE
@pytest.mark.parametrize("lost", cases([1, 50, 999, 1_020, 1_200, 3_300], [999, 1_200]))
def test_blocks_that_reached_a_limit_are_known_after_the_log_lost_its_head(
    tenant: Tenant, here: bool, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MOST_LINES", 1_000)
    send(tenant, gate_lines(1, 8_000), here=here)
    assert LogBlock.objects.filter(lines=1_000).count() > 4
    made = send(tenant, gate_lines(lost + 1, 8_010), here=here)
    assert counted(tenant) == {"gate": 8_010}
    assert (made.read, made.bad) == (10, 0)
    assert stored(tenant) == gate_lines(1, 8_010)


@HERE
@pytest.mark.parametrize("lost", cases([12_600, 12_700, 13_100, 13_300], [12_700, 13_100]))
def test_a_log_that_lost_its_head_between_two_lines_that_are_not_apart_counts_what_is_new(
    tenant: Tenant, here: bool, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "APART", 20_000)
    whole = gate_lines(1, MANY)
    ends = [at for at, line in enumerate(whole.splitlines(), 1) if blocks.ends_block(line)]
    assert {12_659, 13_027, 13_393, 19_997} <= set(ends)
    send(tenant, whole, here=here)
    assert LogBlock.objects.filter(first_line=12_660, lines=19_997 - 12_659).exists()
    made = send(tenant, gate_lines(lost + 1, MANY + 10), here=here)
    assert counted(tenant) == {"gate": MANY + 10}
    assert (made.read, made.bad) == (10, 0)
    assert stored(tenant) == gate_lines(1, MANY + 10)


@HERE
@pytest.mark.parametrize(("known", "lost"), [(12_670, 12_600), (MANY, 19_900)])
def test_a_log_that_grew_and_lost_its_head_just_before_its_last_block_counts_what_is_new(
    tenant: Tenant, here: bool, known: int, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "APART", 20_000)
    send(tenant, gate_lines(1, known), here=here)
    made = send(tenant, gate_lines(lost + 1, MANY + 8_000), here=here)
    assert counted(tenant) == {"gate": MANY + 8_000}
    assert (made.read, made.bad) == (MANY + 8_000 - known, 0)


def test_blocks_that_reached_a_limit_are_known_after_their_lines_were_removed(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MOST_LINES", 1_000)
    send(tenant, gate_lines(1, 8_000))
    LogText.objects.filter(block__first_line__lt=3_000).delete()
    made = send(tenant, gate_lines(1_201, 8_000))
    assert told(made) == {"lines": 6_800, "known": 6_800, "read": 0, "bad": 0}


def test_a_log_that_lost_its_head_keeps_its_numbers(tenant: Tenant) -> None:
    send(tenant, gate_lines(1, 100))
    send(tenant, gate_lines(51, 8_000))
    firsts = sorted(LogBlock.objects.values_list("first_line", "lines"))
    assert firsts[-1][0] + firsts[-1][1] - 1 == 8_000


@HERE
@pytest.mark.parametrize(
    ("first", "then", "gates", "bad"),
    [
        (b"[2026-02-15T00:15:00Z] [INFO] [g] wh", b"ole\n", 1, 0),
        (b"[2026-02-15T00:15:00Z] [INFO] [g] whole", b"\n", 1, 0),
        (b"[2026-02-15T00:15", b":00Z] [INFO] [g] whole", 1, 0),
        (b"ok\n[2026-02-15T00:15", b":00Z] [INFO] [g] whole\nmore", 1, 2),
        (b"ok\n", b"[2026-02-15T00:15:00Z] [INFO] [g] whole", 1, 1),
    ],
)
def test_a_last_line_without_an_end_counts_once_it_is_whole(
    tenant: Tenant, here: bool, first: bytes, then: bytes, gates: int, bad: int
) -> None:
    send(tenant, first, here=here)
    assert sum(counted(tenant).values()) == first.count(b"\n") + (not first.endswith(b"\n"))
    send(tenant, first + then, here=here)
    assert counted(tenant) == {"gate": gates} | ({"bad": bad} if bad else {})
    assert stored(tenant) == first + then


def test_it_grows_before_anybody_has_read_it(tenant: Tenant) -> None:
    store.store_log(tenant, "app.log", "a test", [gate_lines(1, 5) + b"[2026-02"])
    first = LogImport.objects.get()
    made = send(tenant, gate_lines(1, 9), here=False)
    assert counted(tenant) == {"gate": 9}
    assert made.finished_at
    first.refresh_from_db()
    assert first.finished_at


def test_an_empty_log_is_an_import_of_nothing(tenant: Tenant) -> None:
    made = send(tenant, b"")
    assert told(made) == {"lines": 0, "known": 0, "read": 0, "bad": 0}
    assert made.finished_at


def test_equal_lines_far_apart_are_two(tenant: Tenant) -> None:
    data = gate_lines(1, 9_000) * 2
    made = send(tenant, data)
    assert (made.read, counted(tenant)) == (18_000, {"gate": 18_000})
    assert send(tenant, data).known == 18_000
    assert stored(tenant).count(b"\n") == 18_000


def test_the_same_lines_of_another_source_or_tenant_are_others(tenant: Tenant, other_tenant: Tenant) -> None:
    for source in ("a.log", "b.log"):
        assert send(tenant, gate_lines(1, 10), source).read == 10
    assert send(other_tenant, gate_lines(1, 10), "a.log").read == 10
    assert counted(tenant) == {"gate": 20}


def test_any_bytes_are_kept_as_they_came(tenant: Tenant) -> None:
    data = b"a\x00b\n\xff\xfe\n" + b"x" * 70_000 + b"\n\xed\xa0\x80 agent=a\n" + health_line(1, agent="n\\u0000")
    data += b'agent="nul\\u0000" phase=p source=handoff_json timestamp=2026-02-15T00:15:00Z\n'
    data += b"agent=%s phase=p source=handoff_json timestamp=2026-02-15T00:15:00Z\n" % (b"y" * 300)
    made = send(tenant, data)
    assert (made.bad, made.kinds) == (4, {"health": 3})
    assert stored(tenant) == data.replace(b"x" * 70_000, b"x" * 65_536)


def test_what_came_before_the_stream_broke_stays(tenant: Tenant) -> None:
    data = gate_lines(1, 60_000)

    def broken() -> Iterator[bytes]:
        yield data[: len(data) // 2]
        yield data[len(data) // 2 : -100_000]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        store.store_log(tenant, "app.log", "a test", broken(), read_here=True)
    there = counted(tenant)["gate"]
    assert 0 < there < 60_000
    made = send(tenant, data)
    assert (made.known, made.read) == (there, 60_000 - there)
    assert counted(tenant) == {"gate": 60_000}


def test_an_import_that_a_person_stops_says_so(tenant: Tenant) -> None:
    def stopped() -> Iterator[bytes]:
        yield gate_lines(1, 3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.store_log(tenant, "app.log", "a test", stopped())
    assert LogImport.objects.get().error == "The import broke off: it was stopped."


def at_once(*works: Callable[[], object]) -> None:
    failed: list[Exception] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- told below
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failed


@HERE
@pytest.mark.django_db(transaction=True)
def test_the_same_log_sent_twice_at_once_counts_once(tenant: Tenant, here: bool) -> None:
    data = gate_lines(1, 20_000)
    at_once(*[lambda: send(tenant, data, here=here)] * 3)
    assert counted(tenant) == {"gate": 20_000}
    assert stored(tenant) == data
    imports = list(LogImport.objects.all())
    assert [one.lines for one in imports] == [20_000] * 3
    assert sum(one.lines - one.known for one in imports) == sum(one.read for one in imports) == 20_000


@HERE
@pytest.mark.django_db(transaction=True)
def test_a_log_grows_twice_at_once(tenant: Tenant, here: bool) -> None:
    send(tenant, gate_lines(1, 50), here=here)
    at_once(
        lambda: send(tenant, gate_lines(1, 70), here=here),
        lambda: send(tenant, gate_lines(1, 90), here=here),
        lambda: send(tenant, gate_lines(1, 80), here=here),
    )
    assert counted(tenant) == {"gate": 90}
    assert stored(tenant) == gate_lines(1, 90)
