"""Tests that sums over whole hours are equal from daily and from hourly counts."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.models import Q

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import compiled_queries, counts, stats
from handoffaudit.handoffs.compiled_queries import ClosedDays
from handoffaudit.handoffs.counts import OUTCOMES, CountKey
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.rates import HAS_SOURCE, Sums, sum_outcomes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_all_hours_kept")]
BEGIN = datetime(2026, 2, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
STATES = [state for states in OUTCOMES.values() for state in states]
Counted = list[tuple[CountKey, str, str]]


@pytest.fixture(scope="module")
def busy(module_transaction: None) -> Tenant:
    """Return a tenant whose counts no test changes for the tests after it."""
    return Tenant.objects.create(slug="busy", name="Busy")


@pytest.fixture(scope="module")
def counted(busy: Tenant) -> Counted:
    """Count some days of handoffs, and return each handoff with the rule code that it is counted under."""
    other_tenant = Tenant.objects.create(slug="globex", name="Globex")
    chance = random.Random(3)  # noqa: S311 -- the same in every run
    rows: Counted = []
    deltas: counts.Deltas = counts.Deltas()
    for _ in range(400):
        hour = BEGIN + chance.randrange(96) * HOUR
        place = CountKey(busy.pk, hour, chance.choice("xy"), chance.choice(["a", "b", ""]), chance.choice("cd"))
        state, code = chance.choice(STATES), chance.choice(["chain.circular", "tokens.over_budget"])
        deltas.update(counts.count_transition(place, [code], "", state))
        deltas.update(counts.count_transition(place._replace(tenant_id=other_tenant.pk), [code], "", state))
        rows += [(place, state, ""), (place, state, code)]
    counts.apply(deltas)
    return rows


def expected(
    counted: Counted, since: datetime, until: datetime, codes: list[str], columns: list[str]
) -> dict[str, Sums]:
    found: dict[str, Sums] = {}
    for place, state, code in counted:
        if since <= place.hour < until and code in codes:
            (outcome,) = (name for name, states in OUTCOMES.items() if state in states)
            names = ", ".join((place._asdict() | {"code": code})[column] for column in columns)
            before = found.get(names, Sums())
            found[names] = before._replace(**{outcome: getattr(before, outcome) + 1})
    return found


@pytest.mark.parametrize(
    ("since", "until"),
    [
        (BEGIN, BEGIN + 96 * HOUR),
        (BEGIN + 5 * HOUR, BEGIN + 90 * HOUR),
        (BEGIN + 5 * HOUR, BEGIN + 7 * HOUR),
        (BEGIN + 20 * HOUR, BEGIN + 30 * HOUR),
        (BEGIN - 3 * HOUR, BEGIN + 48 * HOUR),
        (BEGIN + 24 * HOUR, BEGIN + 24 * HOUR),
        # More than half of a day, and less, at either end.
        (BEGIN + 3 * HOUR, BEGIN + 21 * HOUR),
        (BEGIN + 13 * HOUR, BEGIN + 61 * HOUR),
        (BEGIN + 11 * HOUR, BEGIN + 83 * HOUR),
        # Until now: the day under way is read whole.
        (BEGIN + 5 * HOUR, datetime(2100, 1, 1, 4, 20, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize(
    ("columns", "codes"),
    [
        (["source_agent_id"], [""]),
        (["handoff_type"], [""]),
        (["source_agent_id", "target_agent_id"], [""]),
        (["code", "source_agent_id"], ["chain.circular", "tokens.over_budget"]),
    ],
)
def test_days_and_hours_sum_to_what_was_counted(
    busy: Tenant, counted: Counted, since: datetime, until: datetime, columns: list[str], codes: list[str]
):
    found = sum_outcomes(busy, since, until, *columns, codes=codes)
    assert {", ".join(names): sums for names, sums in found.items()} == expected(counted, since, until, codes, columns)


def test_those_with_the_most_come_first(busy: Tenant, counted: Counted):
    found = list(
        sum_outcomes(busy, BEGIN, BEGIN + 96 * HOUR, "source_agent_id", narrowed=~Q(source_agent_id="")).items()
    )
    assert [name for (name,), _ in found] in (["a", "b"], ["b", "a"])
    assert found[0][1].total >= found[1][1].total


# The first period reads whole days and subtracts hours, the second adds hours to a day, and the third has only hours.
@pytest.mark.parametrize(("first", "last"), [(5, 90), (13, 52), (26, 30)])
def test_agents_without_a_name_are_left_out_of_hours_and_days(busy: Tenant, counted: Counted, first: int, last: int):
    since, until = BEGIN + first * HOUR, BEGIN + last * HOUR
    found = sum_outcomes(busy, since, until, "source_agent_id", narrowed=HAS_SOURCE)
    every = sum_outcomes(busy, since, until, "source_agent_id")
    assert found == {names: sums for names, sums in every.items() if names != ("",)} != every


def test_sources_can_be_narrowed_by_a_column_that_their_hours_lack(busy: Tenant, counted: Counted):
    since, until = BEGIN + 13 * HOUR, BEGIN + 52 * HOUR
    found = sum_outcomes(busy, since, until, "source_agent_id", narrowed=Q(handoff_type="x"))
    of_type = [one for one in counted if one[0].handoff_type == "x"]
    assert {name: sums for (name,), sums in found.items()} == expected(of_type, since, until, [""], ["source_agent_id"])


def test_only_so_many_are_read(busy: Tenant, counted: Counted):
    [most] = sum_outcomes(busy, BEGIN, BEGIN + 96 * HOUR, "source_agent_id", most=1).items()
    assert most == next(iter(sum_outcomes(busy, BEGIN, BEGIN + 96 * HOUR, "source_agent_id").items()))


def test_of_no_codes_there_is_nothing(busy: Tenant, counted: Counted):
    assert sum_outcomes(busy, BEGIN, BEGIN + 96 * HOUR, "code", codes=[]) == {}


def test_what_moved_on_is_not_counted_twice(tenant: Tenant):
    place = CountKey(tenant.pk, BEGIN, "x", "a", "b")
    counts.apply(counts.count_transition(place, ["chain.circular"], "", State.HELD))
    counts.apply(counts.count_transition(place, ["chain.circular"], State.HELD, State.APPROVED))
    assert sum_outcomes(tenant, BEGIN, BEGIN + 24 * HOUR, "source_agent_id") == {("a",): Sums(decided=1)}


PERIODS = [
    (BEGIN, BEGIN + 96 * HOUR),
    (BEGIN + 13 * HOUR, BEGIN + 61 * HOUR),
    (BEGIN + 11 * HOUR, BEGIN + 83 * HOUR),
    (BEGIN + 5 * HOUR, datetime(2100, 1, 1, 4, 20, tzinfo=UTC)),
]


@pytest.mark.parametrize(("since", "until"), PERIODS)
@pytest.mark.parametrize("columns", [["source_agent_id"], ["source_agent_id", "target_agent_id"]])
def test_kept_sums_of_closed_days_equal_the_counts(
    busy: Tenant,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    since: datetime,
    until: datetime,
    columns: list[str],
):
    """Read each sum twice: once from the database, and once as the process kept it."""
    monkeypatch.setattr(ClosedDays, "_state", (busy.slug, since, until))
    wanted = sum_outcomes(busy, since, until, *columns)
    for day in (3, 4, 6, 12):
        closed = ClosedDays(busy.pk, BEGIN + timedelta(days=day, hours=7))
        assert sum_outcomes(busy, since, until, *columns, closed=closed) == wanted
        assert sum_outcomes(busy, since, until, *columns, closed=closed) == wanted


def test_a_later_decision_changes_a_kept_sum(busy: Tenant, counted: Counted):
    """With SQLite, no sums are kept."""
    since, until, now = BEGIN + 5 * HOUR, BEGIN + 90 * HOUR, BEGIN + timedelta(days=12)

    def read() -> tuple[dict[tuple[str, ...], Sums], list[tuple[str, int]]]:
        closed = ClosedDays(busy.pk, now)
        codes = stats.count_top_codes(busy, since, until, closed=closed)
        return sum_outcomes(busy, since, until, "source_agent_id", closed=closed), codes

    before, again = read(), read()
    assert before == again
    place = next(one[0] for one in counted if one[1] == State.HELD and since <= one[0].hour < until)
    counts.apply(counts.count_transition(place, ["new"], "", State.APPROVED))
    after = read()
    assert after[1] != before[1]
    assert sum(sums.total for sums in after[0].values()) == 1 + sum(sums.total for sums in before[0].values())


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no numbers of transactions in its rows")
def test_only_changed_totals_are_read_again(busy: Tenant, counted: Counted, monkeypatch: pytest.MonkeyPatch):
    since, until, now = BEGIN + 5 * HOUR, BEGIN + 90 * HOUR, BEGIN + timedelta(days=12)
    read = lambda: sum_outcomes(busy, since, until, "handoff_type", closed=ClosedDays(busy.pk, now))  # noqa: E731
    found = read()
    monkeypatch.setattr("handoffaudit.handoffs.compiled_queries.sum_rows", lambda *_: pytest.fail("read again"))
    assert read() == found


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no numbers of transactions in its rows")
@pytest.mark.parametrize("later", [["new"], ["new", "chain.circular"], ["chain.circular"]])
def test_a_recheck_that_changes_only_rule_codes_changes_kept_sums(busy: Tenant, counted: Counted, later: list[str]):
    def read(closed: ClosedDays | None) -> tuple[dict[tuple[str, ...], Sums], list[tuple[str, int]]]:
        period, known = (busy, BEGIN, BEGIN + 96 * HOUR), ["new", "chain.circular", "tokens.over_budget"]
        by_code = sum_outcomes(*period, "code", codes=known, closed=closed)
        return by_code, stats.count_top_codes(*period, closed=closed)

    now = BEGIN + timedelta(days=12)
    assert read(ClosedDays(busy.pk, now)) == read(None)
    place, state, code = next(one for one in counted if one[2] == "tokens.over_budget" and one[1] == State.ACCEPTED)
    # A page never reads in the transaction that changes the counts.
    with transaction.atomic():
        deltas = counts.count_transition(place, [code], state, State.VALIDATING)
        deltas.update(counts.count_transition(place, later, State.VALIDATING, state))
        counts.apply(deltas)
    assert read(ClosedDays(busy.pk, now)) == read(None)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no numbers of transactions in its rows")
def test_two_handoffs_that_swap_their_states_change_kept_sums(tenant: Tenant):
    one, other = (CountKey(tenant.pk, BEGIN, "x", source, "b") for source in "ac")
    counts.apply(counts.count_transition(one, [], "", State.HELD))
    counts.apply(counts.count_transition(other, [], "", State.APPROVED))

    def read() -> dict[tuple[str, ...], Sums]:
        closed = ClosedDays(tenant.pk, BEGIN + timedelta(days=6))
        return sum_outcomes(tenant, BEGIN, BEGIN + 96 * HOUR, "source_agent_id", closed=closed)

    assert read() == {("a",): Sums(stopped=1), ("c",): Sums(decided=1)}
    with transaction.atomic():
        deltas = counts.count_transition(one, [], State.HELD, State.APPROVED)
        deltas.update(counts.count_transition(other, [], State.APPROVED, State.HELD))
        counts.apply(deltas)
    assert read() == {("a",): Sums(decided=1), ("c",): Sums(stopped=1)}


def test_sums_with_too_many_rows_are_not_kept(busy: Tenant, counted: Counted, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ClosedDays, "_state", ("many", busy.pk))
    monkeypatch.setattr("handoffaudit.handoffs.compiled_queries._MOST_ROWS", 1)
    closed = ClosedDays(busy.pk, BEGIN + timedelta(days=11))
    wanted = sum_outcomes(busy, BEGIN, BEGIN + 96 * HOUR, "target_agent_id")
    assert sum_outcomes(busy, BEGIN, BEGIN + 96 * HOUR, "target_agent_id", closed=closed) == wanted


def test_sums_without_rows_are_kept_within_the_limit(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ClosedDays, "_state", ("few", tenant.pk))
    monkeypatch.setattr(compiled_queries, "_MOST_KEPT", 20)
    closed = ClosedDays(tenant.pk, BEGIN + timedelta(days=11))
    for number in range(8):
        sum_outcomes(tenant, BEGIN, BEGIN + 96 * HOUR, narrowed=Q(source_agent_id=f"agent {number}"), closed=closed)
    assert len(compiled_queries._kept) == 3
