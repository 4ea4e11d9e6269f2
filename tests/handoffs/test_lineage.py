"""Tests of the chain that the server knows through parents, and of repetitions without progress."""

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, lineage, queries
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.validation.layers.base import History
from tests.handoffs.support import judged, payload, submit

pytestmark = pytest.mark.django_db


def hop(tenant: Tenant, way: str, name: str, parent: str | None = None) -> Handoff:
    """`hop(tenant, "a>b", "h2", "h1")`: stored, not judged."""
    source, target = way.split(">")
    document = payload(handoff_id=name, source_agent_id=source, target_agent_id=target, call_chain=[source])
    envelope = {"parent_handoff_id": parent} if parent else {}
    return queries.get(tenant, submit(tenant, document, **envelope).id)


def history(handoff: Handoff) -> History:
    return lineage.load_histories([handoff])[handoff.pk]


def test_without_a_parent_nothing_is_known(tenant: Tenant) -> None:
    assert history(hop(tenant, "a>b", "1")) == History()


def test_the_chain_is_derived_through_parents(tenant: Tenant) -> None:
    hop(tenant, "a>b", "1")
    hop(tenant, "b>c", "2", "1")
    last = history(hop(tenant, "c>d", "3", "2"))
    assert (last.derived, last.derived_full, last.derived_complete) == (("a", "b", "c"), ("a", "b", "c"), True)


def test_ancestors_in_the_same_claim_count_too(tenant: Tenant) -> None:
    rows = [hop(tenant, "a>b", "1"), hop(tenant, "b>c", "2", "1"), hop(tenant, "c>d", "3", "2")]
    assert lineage.load_histories(rows)[rows[2].pk].derived == ("a", "b", "c")


def test_a_child_that_comes_before_its_parent_knows_nothing_of_it(tenant: Tenant) -> None:
    child = hop(tenant, "b>c", "2", "1")
    assert history(child).derived is None
    hop(tenant, "a>b", "1")
    assert history(child).derived == ("a", "b")


def test_a_missing_ancestor_makes_the_chain_incomplete(tenant: Tenant) -> None:
    hop(tenant, "b>c", "2", "lost")
    last = history(hop(tenant, "c>d", "3", "2"))
    assert (last.derived, last.derived_complete) == (("b", "c"), False)


@pytest.mark.parametrize("parents", [{"1": "1"}, {"1": "2", "2": "1"}, {"1": "3", "2": "1", "3": "2"}])
def test_parents_in_a_circle_end(tenant: Tenant, parents: dict[str, str]) -> None:
    rows = [hop(tenant, f"s{name}>t{name}", name, parent) for name, parent in parents.items()]
    for known in lineage.load_histories(rows).values():
        assert known.derived_complete is False
        assert len(known.derived_full) <= 2 * len(parents)


def test_the_parent_of_another_tenant_is_not_seen(tenant: Tenant, other_tenant: Tenant) -> None:
    submit(other_tenant, payload(handoff_id="1", tenant_id="globex"))
    assert history(hop(tenant, "b>c", "2", "1")).derived is None


def test_an_ancestry_is_followed_only_so_far(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(lineage, "MOST_ANCESTORS", 3)
    for number in range(6):
        last = hop(tenant, f"a{number}>a{number + 1}", str(number), str(number - 1) if number else None)
    known = history(last)
    assert (known.derived_complete, known.derived) == (False, ("a2", "a3", "a4", "a5"))


def generations(tenant: Tenant, number: int) -> list[Handoff]:
    rows = [stored(tenant, str(at), str(at - 1) if at else "") for at in range(number)]
    Handoff.objects.bulk_create(rows)
    return rows


def stored(tenant: Tenant, name: str, parent: str = "") -> Handoff:
    return Handoff(
        tenant=tenant,
        handoff_id=name,
        parent_handoff_id=parent,
        source_agent_id=f"a{name}",
        target_agent_id=f"t{name}",
        state=State.ACCEPTED,
        received_at=timezone.now(),
        size_bytes=1,
    )


@pytest.mark.parametrize("depth", [1, 2, 5, 199, 200, 250])
def test_ancestors_however_many_are_read_in_one_query(
    tenant: Tenant, depth: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    last = generations(tenant, depth + 1)[-1]
    with django_assert_num_queries(1):
        known = history(last)
    assert known.derived_full is not None
    assert known.derived_complete is (depth <= 200)
    assert known.derived_full[-1] == f"a{depth}"
    assert known.derived_full[0] == f"a{max(depth - 200, 0)}"


def test_the_ancestors_of_many_are_read_in_one_query(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    rows = generations(tenant, 300)
    some = [rows[1], rows[40], rows[299], rows[120]]
    with django_assert_num_queries(1):
        known = lineage.load_histories(some)
    assert known == {row.pk: history(row) for row in some}


def test_a_circle_far_up_ends_in_one_query(tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    Handoff.objects.bulk_create([stored(tenant, "x", "y"), stored(tenant, "y", "z"), stored(tenant, "z", "x")])
    last = hop(tenant, "tx>b", "last", "x")
    with django_assert_num_queries(1):
        known = history(last)
    assert known.derived_complete is False


def test_a_gap_between_target_and_next_source_keeps_both(tenant: Tenant) -> None:
    hop(tenant, "a>b", "1")
    assert history(hop(tenant, "x>y", "2", "1")).derived == ("a", "b", "x")


@pytest.mark.parametrize(
    ("full", "folded"),
    [
        ("", ""),
        ("a", "a"),
        ("aba", "a"),
        ("abcb", "ab"),
        ("abcba", "a"),
        ("abac", "ac"),
        ("abca", "abca"),
        ("ababab", "ab"),
    ],
)
def test_returns_to_the_one_before_are_folded(full: str, folded: str) -> None:
    assert "".join(lineage.fold_returns(tuple(full))) == folded


@given(st.lists(st.sampled_from("abc"), max_size=30).map(tuple))
def test_a_folded_chain_has_no_return_left_and_is_folded_once_for_all(chain: tuple[str, ...]) -> None:
    folded = lineage.fold_returns(chain)
    assert all(folded[at] != folded[at + 2] for at in range(len(folded) - 2))
    assert lineage.fold_returns(folded) == folded
    assert folded[-1:] == chain[-1:]


def test_the_derived_chain_is_held_against_the_declared_one(tenant: Tenant) -> None:
    hop(tenant, "planner>researcher", "1")
    own = payload(handoff_id="2", call_chain=["researcher"])
    submit(tenant, own, parent_handoff_id="1")
    submit(tenant, payload(handoff_id="3"), parent_handoff_id="1")
    submit(tenant, payload(handoff_id="4", call_chain=["critic", "researcher"]), parent_handoff_id="1")
    judge.drain()
    assert [queries.get(tenant, name).codes for name in "234"] == [[], [], ["chain.declared_differs"]]
    # A chain whose beginning is missing is only noted.
    verdict = queries.current_verdict(queries.get(tenant, "2"))
    assert [(one["code"], one["severity"]) for one in verdict["issues"]] == [("chain.declared_differs", "info")]
    shown = verdict["chain"]
    assert (shown["declared"], shown["derived"]) == (["researcher"], ["planner", "researcher"])


def test_limits_apply_to_the_longer_chain(tenant: Tenant) -> None:
    for number in range(6):
        hop(tenant, f"a{number}>a{number + 1}", str(number), str(number - 1) if number else None)
    judge.drain()
    last = queries.get(tenant, "5")
    assert (last.state, last.chain_length) == (State.HELD, 6)
    assert "chain.needs_approval" in last.codes


def test_the_third_time_without_progress_is_rejected(tenant: Tenant) -> None:
    repeated = [judged(tenant, payload(), trace_id="t") for _ in range(3)]
    assert [handoff.state for handoff in repeated] == [State.ACCEPTED, State.ACCEPTED, State.REJECTED]
    assert repeated[2].codes == ["chain.repeats_without_progress"]


def test_the_third_time_within_one_claim_is_rejected_too(tenant: Tenant) -> None:
    ids = [submit(tenant, payload(), trace_id="t").id for _ in range(3)]
    judge.drain()
    assert [queries.get(tenant, pk).state for pk in ids] == [State.ACCEPTED, State.ACCEPTED, State.REJECTED]


@pytest.mark.parametrize(
    "changes",
    [{"data": {"progress": 2}}, {"target_agent_id": "editor"}, {"source_agent_id": "planner"}],
)
def test_other_data_or_another_pair_is_progress(tenant: Tenant, changes: dict[str, object]) -> None:
    for _ in range(2):
        judged(tenant, payload(), trace_id="t")
    assert judged(tenant, payload(**changes), trace_id="t").state == State.ACCEPTED
    assert judged(tenant, payload(), trace_id="other").state == State.ACCEPTED
    assert judged(tenant, payload()).state == State.ACCEPTED


def test_a_loop_is_told_once_and_not_on_the_side_of_the_tool(tenant: Tenant, other_tenant: Tenant) -> None:
    asked = payload(source_agent_id="asker", target_agent_id="tool", call_chain=["asker"])
    answered = payload(source_agent_id="tool", target_agent_id="asker", call_chain=["tool"])
    states = [
        (judged(tenant, asked, trace_id="t").state, judged(tenant, answered, trace_id="t").state) for _ in range(4)
    ]
    assert states == [("accepted", "accepted")] * 2 + [("rejected", "accepted")] * 2
    # New questions with the same answer are not a loop of questions, so the answers have the finding.
    for number in range(3):
        judged(other_tenant, asked | {"tenant_id": "globex", "data": {"text": f"Is it {number}?"}}, trace_id="t")
        last = judged(other_tenant, answered | {"tenant_id": "globex"}, trace_id="t")
    assert last.state == "rejected"


def test_repeats_in_another_tenant_do_not_count(tenant: Tenant, other_tenant: Tenant) -> None:
    for _ in range(2):
        judged(other_tenant, payload(tenant_id="globex"), trace_id="t")
    assert judged(tenant, payload(), trace_id="t").state == State.ACCEPTED


def test_empty_answers_in_a_row_are_no_loop(tenant: Tenant) -> None:
    answers = [
        judged(tenant, payload(handoff_id=f"h-{number}", data={"text": ""}), trace_id="t") for number in range(4)
    ]
    assert {answer.state for answer in answers} == {"accepted"}


@pytest.mark.parametrize(
    ("field", "code"), [("retry_of", "chain.unknown_retry"), ("parent_handoff_id", "chain.unknown_parent")]
)
def test_a_handoff_that_is_named_and_not_known_is_told(
    tenant: Tenant, other_tenant: Tenant, field: str, code: str
) -> None:
    judged(other_tenant, payload(handoff_id="theirs", tenant_id=other_tenant.slug))
    for name, named, is_told in (("1", "theirs", True), ("2", "1", False)):
        verdict = queries.current_verdict(judged(tenant, payload(handoff_id=name), **{field: named}))
        assert verdict is not None
        assert (code in [issue["code"] for issue in verdict["issues"]]) is is_told


def test_handoffs_named_within_one_claim_are_known(tenant: Tenant) -> None:
    rows = [hop(tenant, "a>b", "1"), hop(tenant, "b>c", "2", "1"), hop(tenant, "b>c", "3", "lost")]
    assert [one.unknown for one in lineage.load_histories(rows).values()] == [(), (), ("lost",)]
