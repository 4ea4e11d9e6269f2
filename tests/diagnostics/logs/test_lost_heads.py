"""Tests that compare a log that grows, loses its first lines or is sent in excerpts with a list of its lines."""

import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import store, write_plan
from handoffaudit.diagnostics.models import LogBlock, LogCount, LogImport
from handoffaudit.validation.logs import blocks
from tests.diagnostics.logs.support import gate_lines, health, health_line, send, stored
from tests.scale import NIGHTLY, cases, examples

TRACE = b"Traceback (most recent call last):\n"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let about a fifth of all lines end a block, unless the last such line is less than about nine lines before."""
    monkeypatch.setattr(blocks, "APART", 400)
    monkeypatch.setattr(blocks, "_RATE_BITS", 24)


def make_line(n: int) -> bytes:
    """Return a line with this number or, for each fourth number, one of two lines that occur often."""
    if n % 4 == 0:
        return TRACE if n % 8 else b"\n"
    if n % 4 == 1:
        return health_line(n, agent=f"planner{n % 3}")
    return gate_lines(n, n).replace(b"INFO", b"ERROR") if n % 16 == 2 else gate_lines(n, n)


def make_lines(first: int, last: int) -> bytes:
    return b"".join(map(make_line, range(first, last + 1)))


def describe(line: bytes) -> tuple[str, str, str] | None:
    """Return the kind of a line, its level or reason, and its component; for an empty line, return None."""
    if line == b"\n":
        return None
    if line == TRACE or not line.endswith(b"\n"):
        return "bad", "", ""
    if agent := re.match(rb"agent=(\w+)", line):
        return "health", "file_missing", agent[1].decode()
    return "gate", "error" if b"ERROR" in line else "info", "gate"


class Log:
    """A log that is imported in several states. `lines` are the lines that at least one state had."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.lines: list[bytes] = []

    def send(self, lost: int, last: int, *, begun: bool = False, here: bool = True) -> None:
        """Import and check the lines after line `lost` up to line `last`, and with `begun` a part of the next line."""
        lines = [make_line(n) for n in range(1, last + 1)]
        if begun and (part := make_line(last + 1)[:5].strip()):
            lines.append(part)
        known = len(lines)
        if len(b"".join(lines)) > len(b"".join(self.lines)):
            # The beginning of a line is not the line, so the whole line is new.
            known = sum(old == new for old, new in zip(self.lines, lines, strict=False))
            self.lines = lines
        made = send(self.tenant, b"".join(lines[lost:]), here=here)
        self.check_store()
        check_import(made, lines[lost:], lines[known:])

    def send_excerpt(self, first: int, last: int, *, begun: bool = False) -> None:
        """Import and check lines that were sent before, and with `begun` a part of the next line."""
        lines = self.lines[first - 1 : last] + [self.lines[last][:5]] * begun
        made = send(self.tenant, b"".join(lines))
        self.check_store()
        check_import(made, lines, [])

    def check_store(self) -> None:
        assert stored(self.tenant).splitlines(keepends=True) == self.lines
        rows = LogBlock.objects.filter(tenant=self.tenant).order_by("first_line")
        numbers = [n for row in rows for n in range(row.first_line, row.first_line + row.lines)]
        assert numbers == list(range(1, len(self.lines) + 1))
        described = Counter(filter(None, map(describe, self.lines)))
        found: Counter[tuple[str, str, str]] = Counter()
        for row in LogCount.objects.filter(tenant=self.tenant):
            found[row.kind, row.level or row.event, row.component] += row.number
        assert +found == described
        files = sum(number for (kind, _, _), number in described.items() if kind == "health")
        assert health(self.tenant) == ({"file_missing": files} if files else {})


def check_import(made: LogImport, lines: list[bytes], new: list[bytes]) -> None:
    kinds = Counter(kind for kind, _, _ in filter(None, map(describe, new)))
    bad = kinds.pop("bad", 0)
    assert (made.lines, made.known, made.read, made.bad) == (len(lines), len(lines) - len(new), kinds.total(), bad)
    assert +Counter(made.kinds) == kinds
    assert made.finished_at


@pytest.mark.parametrize("grown", [0, 1, 15])
@pytest.mark.parametrize("lost", [9, 10, 23, 39])
def test_a_log_that_lost_its_head_inside_its_last_block_counts_what_is_new(
    tenant: Tenant, small_blocks: None, lost: int, grown: int
) -> None:
    log = Log(tenant)
    log.send(0, 40)
    tail = LogBlock.objects.get(tail=True)
    # In the log without its head, the first block ends at one of these lines.
    ends = [n for n in range(1, 41) if blocks.ends_block(make_line(n)[:-1])]
    assert tail.first_line == 10
    assert ends[-4:] == [29, 31, 33, 37]
    log.send(lost, 40 + grown)
    log.send(0, 41 + grown)


@pytest.mark.parametrize("grown", [0, 1, 4_000])
@pytest.mark.parametrize("lost", [1, 30, 39])
def test_a_log_shorter_than_a_block_that_lost_its_head_counts_what_is_new(
    tenant: Tenant, lost: int, grown: int
) -> None:
    log = Log(tenant)
    log.send(0, 40)
    log.send(lost, 40 + grown)


def test_a_log_begins_at_a_line_that_occurs_often_in_the_last_block(tenant: Tenant) -> None:
    log = Log(tenant)
    log.send(0, 900)
    assert log.lines[:759].count(make_line(760)) > 64
    log.send(759, 901)
    log.send(759, 901)


def test_a_log_that_keeps_only_the_line_without_an_end_counts_the_line_once(tenant: Tenant) -> None:
    log = Log(tenant)
    log.send(0, 40, begun=True)
    log.send(40, 40, begun=True)
    log.send(40, 42)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("last", [5, 30, 59])
def test_an_older_copy_of_a_log_counts_nothing(tenant: Tenant, small_blocks: None, last: int, begun: bool) -> None:
    log = Log(tenant)
    log.send(0, 60)
    assert LogBlock.objects.get(tail=True).first_line == 48
    log.send(0, last, begun=begun)


def test_a_last_block_that_also_begins_an_earlier_block_is_new(
    tenant: Tenant, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCH_BLOCKS", 1)
    data = make_lines(1, 100) * 2
    assert send(tenant, data).known == 0
    assert stored(tenant) == data
    tail = LogBlock.objects.get(tail=True).load_text()
    assert sum(block.load_text().startswith(tail) for block in LogBlock.objects.all()) == 2


def test_the_beginning_of_a_line_is_new_if_another_log_begins_with_the_same_bytes(
    tenant: Tenant, small_blocks: None
) -> None:
    send(tenant, make_lines(22, 24))
    whole, begun = make_lines(68, 81), make_line(82)[:5]
    assert make_line(22).startswith(begun)
    assert [block.text for block in blocks.cut_blocks([whole + begun])] == [whole, begun]
    assert send(tenant, whole + begun).known == 0


# Blocks of the log begin at lines 2, 10, 48, 68, 82 and 104. The last block is a tail.
BY_DAY = [(12, 15), (20, 47), (30, 33), (40, 60), (98, 110)]
EXCERPTS = [*BY_DAY, *((first, last) for first in range(10, 46, 3) for last in range(first + 3, 119, 9))]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("excerpt", cases(EXCERPTS, BY_DAY))
def test_an_excerpt_counts_nothing(tenant: Tenant, small_blocks: None, excerpt: tuple[int, int], begun: bool) -> None:
    log = Log(tenant)
    log.send(0, 120)
    log.send_excerpt(*excerpt, begun=begun)


# The lines of one moment and lines without a time may occur again.
AT_ONCE = gate_lines(7, 7) + gate_lines(7, 7).replace(b"line", b"try")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(AT_ONCE, id="one moment"),
        pytest.param(b"agent\nlost\n", id="no times"),
        pytest.param(make_lines(20, 40) + b"another end\n", id="another end"),
        pytest.param(make_lines(47, 47) + make_lines(200, 230), id="only the last line of a block"),
    ],
)
def test_lines_that_may_be_no_excerpt_are_new(tenant: Tenant, small_blocks: None, lines: bytes) -> None:
    whole = make_lines(1, 40) + AT_ONCE + b"agent\nlost\n" + make_lines(41, 120)
    assert send(tenant, whole).known == 0
    assert LogBlock.objects.filter(first_line__lt=20, lines__gt=30, tail=False).exists()
    made = send(tenant, lines)
    assert (made.lines, made.known) == (lines.count(b"\n"), 0)


def test_a_log_that_an_earlier_version_counted_in_part_twice_is_known(
    tenant: Tenant, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(tenant, make_lines(1, 40))
    with monkeypatch.context() as earlier:
        earlier.setattr(write_plan, "_join_first", lambda *_: None)
        assert send(tenant, make_lines(26, 45)).known < 15
    assert send(tenant, make_lines(26, 45)).known == 20


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 60),
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([0, 1, 7, 30]), st.booleans(), st.booleans()),
        max_size=4 if NIGHTLY else 2,
    ),
)
@example(60, [(27, 3, True, True), (16, 40, False, False), (43, 20, False, False)])
@example(11, [(9, 1, False, False), (1, 0, True, False)])
@example(40, [(1, 40, True, True), (49, 0, False, False), (30, 1, False, False)])
def test_a_log_that_grows_and_loses_its_head_counts_each_line_once(
    small_blocks: None, db: None, last: int, states: list[tuple[int, int, bool, bool]]
) -> None:
    log = Log(Tenant.objects.create(slug=f"lost-heads-{Tenant.objects.count()}", name="Lost heads"))
    log.send(0, last)
    lost = 0
    for more, grown, begun, here in states:
        # Two lines of the previous state are left, because at least one of them occurs only once.
        lost = min(lost + more, max(0, last - 2))
        last += grown
        log.send(lost, last, begun=begun, here=here)
