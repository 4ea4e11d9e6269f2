"""Tests of the search in logs: newest first, all matches over pages, with bounded work."""

import tracemalloc
from datetime import UTC, datetime

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import search as logs_search
from handoffaudit.diagnostics.logs import store
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.diagnostics.logs.search import PAGE_BYTES, Page, search_lines
from handoffaudit.diagnostics.models import LogBlock
from handoffaudit.filter_fields import FilterError
from tests.diagnostics.logs.support import gate_lines, health_line, send

DAY = datetime(2026, 2, 15, tzinfo=UTC)


def pages(tenant: Tenant, query: LogQuery, limit: int = 50) -> list[Page]:
    found = [search_lines(tenant, query, limit=limit)]
    while found[-1].next:
        found.append(search_lines(tenant, query, found[-1].next, limit))
        assert len(found) < 10_000
    return found


def numbers(found: list[Page]) -> list[tuple[str, int]]:
    return [(line.source, line.number) for page in found for line in page.items]


def test_every_line_is_found_once_newest_first(tenant: Tenant) -> None:
    send(tenant, gate_lines(1, 9_000))
    found = pages(tenant, LogQuery(), 200)
    assert numbers(found) == [("app.log", n) for n in range(9_000, 0, -1)]
    assert not any(page.crowded for page in found)


def test_logs_of_the_same_time_are_merged(tenant: Tenant) -> None:
    send(tenant, b"".join(gate_lines(n, n) for n in range(1, 6_000, 2)), "odd.log")
    send(tenant, b"".join(gate_lines(n, n) for n in range(2, 6_000, 2)), "even.log")
    send(tenant, gate_lines(1, 1) + gate_lines(5_999, 5_999), "quiet.log")
    lines = [line for page in pages(tenant, LogQuery(), 170) for line in page.items]
    times = [line.at for line in lines]
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]
    assert len({(line.source, line.number) for line in lines}) == len(lines) == 6_001


def test_the_same_moment_in_many_lines_is_paged_too(tenant: Tenant) -> None:
    send(tenant, gate_lines(7, 7) * 5_000, "same.log")
    send(tenant, gate_lines(7, 7) * 3_000, "other.log")
    assert len(set(numbers(pages(tenant, LogQuery(), 777)))) == 8_000


def test_a_search_says_how_far_it_came_and_goes_on(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_search, "MOST_BLOCKS", 1)
    send(tenant, gate_lines(1, 20_000) + health_line(20_001))
    found = pages(tenant, LogQuery(text="LINE 17"))
    assert len(found) > 3
    assert [page.reached for page in found if not page.items]
    expected = [n for n in range(20_000, 0, -1) if str(n).startswith("17")]
    assert [number for _, number in numbers(found)] == expected


def test_blocks_without_what_is_asked_for_are_passed_over(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    send(tenant, health_line(1) + gate_lines(2, 20_000))
    monkeypatch.setattr(logs_search, "MOST_BLOCKS", 2)
    [page] = pages(tenant, LogQuery(agent="planner"))
    assert [line.number for line in page.items] == [1]
    [nothing] = pages(tenant, LogQuery(agent="nobody"))
    assert nothing.items == []


def test_bad_lines_stand_where_they_came(tenant: Tenant) -> None:
    made = send(tenant, b"first\n" + gate_lines(1, 2) + b"second\n\xff\n" + gate_lines(3, 4))
    assert [number for _, number in numbers(pages(tenant, LogQuery()))] == [7, 6, 5, 4, 3, 2, 1]
    page = search_lines(tenant, LogQuery(kind="bad"))
    assert [(line.number, line.at) for line in page.items] == [(5, None), (4, None), (1, None)]
    assert "UTF-8" in page.items[0].why
    listed = store.list_bad_lines(made, limit=2)
    assert [line.number for line in listed.items] == [1, 4]
    assert listed.next
    assert [line.number for line in store.list_bad_lines(made, listed.next).items] == [5]


def test_a_log_of_bad_lines_alone_is_found(tenant: Tenant) -> None:
    send(tenant, b"one\ntwo\n")
    assert [line.number for line in search_lines(tenant, LogQuery()).items] == [2, 1]


def test_lines_around_a_handoff(tenant: Tenant) -> None:
    send(tenant, b"".join(health_line(n, agent="writer" if n // 60 % 2 else "planner") for n in range(60, 3_600, 60)))
    page = logs_search.lines_around(tenant, "r1740", ["writer"], DAY.replace(minute=30), minutes=2)
    assert [line.number for line in page.items] == [31, 29]
    assert [line.number for line in logs_search.lines_around(tenant, "r1800", [], DAY.replace(minute=30)).items] == [30]
    assert logs_search.lines_around(tenant, "", ["nobody"], DAY.replace(minute=30)).items == []


def test_nobody_finds_the_lines_of_others(tenant: Tenant, other_tenant: Tenant) -> None:
    send(tenant, gate_lines(1, 5))
    assert search_lines(other_tenant, LogQuery()).items == []
    assert store.list_imports(other_tenant) == ([], None)


@pytest.mark.parametrize("cursor", ["x", "1.2", "g.0.0", "f" * 60 + ".0.0", "1.2.3.4"])
def test_a_cursor_that_is_none_is_refused(tenant: Tenant, cursor: str) -> None:
    with pytest.raises(FilterError):
        search_lines(tenant, LogQuery(), cursor)


def test_a_search_gets_past_a_minute_with_too_many_blocks(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_search, "MOST_BLOCKS", 2)
    monkeypatch.setattr(logs_search, "MOST_AT_ONCE", 3)
    for n in range(9):
        send(tenant, gate_lines(600 + n, 600 + n), f"{n}.log")
    send(tenant, gate_lines(60, 60), "early.log")
    found = pages(tenant, LogQuery(text="line 60"))
    assert any(page.crowded for page in found)
    assert ("early.log", 1) in numbers(found)
    assert len(numbers(found)) == len(set(numbers(found))) >= 6


@pytest.mark.parametrize("query", [LogQuery(text="nowhere"), LogQuery(trace="t-9")])
def test_lines_of_a_block_without_the_words_are_not_read(
    tenant: Tenant, query: LogQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(tenant, b"".join(health_line(n) for n in range(300)))
    LogBlock.objects.update(facets="")
    monkeypatch.setattr(logs_search, "read_bytes", lambda _: pytest.fail("a line was read"))
    assert not search_lines(tenant, query).items


@pytest.mark.parametrize(
    "query",
    [LogQuery(agent="planner"), LogQuery(phase="plan"), LogQuery(trace="run-1"), LogQuery(text="PL\\U0061NNER")],
)
def test_values_in_escapes_are_found(tenant: Tenant, query: LogQuery) -> None:
    line = (
        rb'agent="pl\u0061nner" phase="pl\u0061n" source=handoff_json timestamp=2026-02-15T00:15:00Z run="r\u0075n-1"'
    )
    send(tenant, line + b"\n")
    assert len(search_lines(tenant, query).items) == 1


def test_a_search_among_many_short_lines_keeps_those_of_its_page_alone(tenant: Tenant) -> None:
    send(tenant, b"x\n" * 60_000)
    tracemalloc.start()
    try:
        page = search_lines(tenant, LogQuery(kind="bad"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [line.number for line in page.items] == list(range(60_000, 59_950, -1))
    assert peak < 4 * 1024 * 1024


def test_bad_lines_without_a_time_are_found_over_pages_although_their_blocks_end_at_once(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_search, "MOST_BLOCKS", 1)
    send(tenant, b"".join(b"%d\n" % n for n in range(40_000)))
    assert LogBlock.objects.count() >= 3
    found = pages(tenant, LogQuery(text="7777"))
    assert [number for _, number in numbers(found)] == [n + 1 for n in range(40_000, -1, -1) if "7777" in str(n)]
    assert not any(page.crowded for page in found)


def test_a_page_of_long_lines_is_bounded_in_bytes(tenant: Tenant) -> None:
    log = b"".join(line.rstrip(b"\n") + b"x" * 60_000 + b"\n" for line in gate_lines(1, 40).splitlines(keepends=True))
    made = send(tenant, log + b"y" * 60_000 + b"\n" + b"z" * 60_000 + b"\n")
    found = pages(tenant, LogQuery(kind="gate"), 200)
    assert numbers(found) == [("app.log", n) for n in range(40, 0, -1)]
    assert all(sum(len(line.text) for line in page.items) <= PAGE_BYTES for page in found)
    assert [line.number for line in store.list_bad_lines(made, limit=200).items] == [41, 42]


def test_a_search_that_takes_long_stops_and_goes_on(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_search, "SEARCH_SECONDS", -1.0)
    send(tenant, gate_lines(1, 20_000))
    found = pages(tenant, LogQuery(text="LINE 17"))
    assert len(found) > 2
    assert [number for _, number in numbers(found)] == [n for n in range(20_000, 0, -1) if str(n).startswith("17")]
