"""Tests of handoffs without a declared chain, whose chain is derived from their trace and their parents."""

from collections.abc import Iterable
from itertools import cycle, islice
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from handoffaudit.accounts.models import Tenant
from handoffaudit.drawing.chain import Chain, draw_chain
from handoffaudit.handoffs import judge, lineage, queries
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.validation.layers.base import History
from tests.handoffs.support import judged, payload, set_policy, submit

pytestmark = pytest.mark.django_db

LOOP = ("researcher>writer", "writer>researcher")


def document(way: str, number: int = 0, **changes: Any) -> dict[str, Any]:
    """`document("a>b", 3)`: a payload of that route with data of its own, without a chain and a tenant."""
    source, target = way.split(">")
    made = payload(source_agent_id=source, target_agent_id=target, data={"text": f"draft {number}"})
    del made["call_chain"], made["tenant_id"]
    return made | changes


def walk(tenant: Tenant, ways: Iterable[str], trace: str = "t") -> list[Handoff]:
    """Submit and judge these handoffs of one trace, each with new data."""
    return [judged(tenant, document(way, at), trace_id=trace) for at, way in enumerate(ways)]


def history(handoff: Handoff) -> History:
    return lineage.load_histories([handoff])[handoff.pk]


def chain_of(handoff: Handoff) -> dict[str, Any]:
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    chain: dict[str, Any] = verdict["chain"]
    return chain


def test_a_reviewer_loop_with_new_data_is_no_finding(tenant: Tenant) -> None:
    made = walk(tenant, ["triage>researcher", *islice(cycle(LOOP), 6)])
    assert {(handoff.state, tuple(handoff.codes)) for handoff in made} == {(State.ACCEPTED, ())}
    last = chain_of(made[-1])
    assert (last["declared"], last["shown"]) == ([], ["triage", "researcher", "writer"])


def test_the_sixth_return_on_a_route_is_rejected(tenant: Tenant) -> None:
    made = walk(tenant, ["triage>researcher", *islice(cycle(LOOP), 12)])
    assert [handoff.state for handoff in made] == [State.ACCEPTED] * 12 + [State.REJECTED]
    assert made[-1].codes == ["chain.repeats_without_progress"]
    verdict = queries.current_verdict(made[-1])
    (issue,) = [one for one in verdict["issues"] if one["severity"] == "error"]
    assert (issue["expected"], issue["actual"]) == (5, 6)
    assert '"writer" returns the work to "researcher" for the 6th time' in issue["message"]
    assert "max_returns" in issue["hint"]
    assert chain_of(made[-1])["loop"] == [1]


@pytest.mark.parametrize("most", [0, 1, 7])
def test_the_type_says_how_many_returns_are_allowed(tenant: Tenant, most: int) -> None:
    set_policy(tenant, "research_result", max_returns=most)
    made = walk(tenant, ["triage>researcher", *islice(cycle(LOOP), 2 * (most + 1))])
    assert [handoff.state for handoff in made].index(State.REJECTED) == 2 * (most + 1)


def test_the_same_data_for_the_third_time_is_rejected(tenant: Tenant) -> None:
    states = [judged(tenant, document("a>b"), trace_id="t").state for _ in range(3)]
    assert states == [State.ACCEPTED, State.ACCEPTED, State.REJECTED]


def test_a_declared_chain_is_judged_as_before(tenant: Tenant) -> None:
    for at, way in enumerate(["triage>researcher", *islice(cycle(LOOP), 14)]):
        source = way.split(">")[0]
        handoff = judged(tenant, document(way, at, call_chain=[source]), trace_id="t")
        assert (handoff.state, handoff.codes) == (State.ACCEPTED, [])
    back = document("writer>researcher", 99, call_chain=["researcher", "writer"])
    assert judged(tenant, back, trace_id="t").codes == ["chain.circular"]


def test_a_universal_handoff_without_a_chain_is_judged_by_the_derived_one(tenant: Tenant) -> None:
    def universal(way: str, number: int) -> dict[str, Any]:
        source, target = way.split(">")
        return {
            "handoff": {
                "version": "3.0",
                "schema_type": "universal",
                "timestamp": "2026-02-01T08:00:00Z",
                "trace_id": "d53a8f7e-049d-4f0d-910f-824ba3bf6e11",
                "source": {"skill": source, "workflow_id": "w", "session_path": "s", "phase": "one"},
                "target": {"skill": target},
                "context": {"summary": "Write it.", "problem_type": "implementation"},
                "payload": {"working": {"draft": f"draft {number}"}},
                "meta": {"token_count": 110, "confidence": "high"},
            }
        }

    made = [judged(tenant, universal(way, at)) for at, way in enumerate(["a>researcher", *islice(cycle(LOOP), 12)])]
    assert [handoff.state for handoff in made] == [State.ACCEPTED] * 12 + [State.REJECTED]
    assert not any("chain.source_not_first" in handoff.codes for handoff in made)


def test_parents_come_before_the_order_of_the_trace(tenant: Tenant) -> None:
    judged(tenant, document("a>b", handoff_id="1"), trace_id="t")
    judged(tenant, document("x>b", handoff_id="2"), trace_id="t")
    by_parent = judged(tenant, document("b>c"), trace_id="t", parent_handoff_id="1")
    by_trace = judged(tenant, document("b>c", 1), trace_id="t")
    unknown = judged(tenant, document("b>c", 2), trace_id="t", parent_handoff_id="lost")
    assert history(by_parent).derived == ("a", "b")
    assert history(by_trace).derived == history(unknown).derived == ("x", "b")
    assert chain_of(unknown)["derived_complete"] is True


def test_without_trace_and_parent_the_chain_is_the_source(tenant: Tenant) -> None:
    handoff = judged(tenant, document("a>b"))
    assert (handoff.state, handoff.chain_length, chain_of(handoff)["shown"]) == (State.ACCEPTED, 1, ["a"])
    assert judged(tenant, document("a>a")).codes == ["chain.self_handoff"]


def test_each_agent_counts_once_for_the_length(tenant: Tenant) -> None:
    again = walk(tenant, ["a>b", "b>c", "c>a", "a>b", "b>c", "c>a", "a>b", "b>c"])
    assert {handoff.state for handoff in again} == {State.ACCEPTED}
    assert history(again[-1]).derived == tuple("abcabcab")
    long = walk(tenant, ["a>b", "b>c", "c>d", "d>e", "e>f", "f>g"], trace="long")
    assert [handoff.state for handoff in long] == [State.ACCEPTED] * 5 + [State.HELD]
    verdict = queries.current_verdict(long[-1])
    (issue,) = [one for one in verdict["issues"] if one["code"] == "chain.needs_approval"]
    assert (issue["actual"], issue["field_path"]) == (6, "target_agent_id")
    assert verdict["chain"]["over_from"] == 5


def test_a_new_turn_in_a_trace_begins_a_new_chain(tenant: Tenant) -> None:
    walk(tenant, ["triage>researcher", "researcher>writer"])
    (second,) = walk(tenant, ["triage>researcher"])
    assert history(second).derived == ("triage",)


def test_the_answer_does_not_depend_on_the_batch(tenant: Tenant) -> None:
    ways = ["triage>researcher", *islice(cycle(LOOP), 12), "writer>editor"]
    ids = [submit(tenant, document(way, at), trace_id="t").id for at, way in enumerate(ways)]
    ids += [submit(tenant, document("b>c", 1), trace_id=f"t-{number}").id for number in range(120)]
    rows = [queries.get(tenant, pk) for pk in ids]
    together = lineage.load_histories(rows)
    assert together == {row.pk: history(row) for row in rows}
    judge.drain()
    assert [queries.get(tenant, pk).state for pk in ids[:14]].count(State.REJECTED) == 1


def test_chains_of_handoffs_far_apart_in_their_trace_are_whole(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    monkeypatch.setattr(lineage, "MOST_ANCESTORS", 3)
    ways = ["a>b", "b>c", *["x>y"] * 6, "c>d", "d>e", *["x>y"] * 6, "y>z"]
    ids = [submit(tenant, document(way, at), trace_id="t").id for at, way in enumerate(ways)]
    ids += [submit(tenant, document(way, at), trace_id="near").id for at, way in enumerate(["a>b", "b>c"])]
    rows = [queries.get(tenant, ids[at]) for at in (1, 9, 16, 18)]
    # The repeats and three parts of the traces are four queries.
    with django_assert_num_queries(4):
        together = lineage.load_histories(rows)
    assert together == {row.pk: history(row) for row in rows}
    assert [together[row.pk].derived for row in rows] == [("a", "b"), ("c", "d"), ("x", "y"), ("a", "b")]
    assert [together[row.pk].derived_complete for row in rows] == [True, False, False, True]


def test_declared_chains_cost_no_query(tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    declared = judged(tenant, payload(), trace_id="t")
    derived = judged(tenant, document("a>b"), trace_id="t")
    # The repeats of the trace are one query.
    with django_assert_num_queries(1):
        lineage.load_histories([declared])
    with django_assert_num_queries(2):
        lineage.load_histories([declared, derived])


def test_another_tenants_trace_and_parent_are_not_seen(tenant: Tenant, other_tenant: Tenant) -> None:
    submit(other_tenant, document("x>a", handoff_id="theirs"), trace_id="t")
    handoff = judged(tenant, document("a>b"), trace_id="t", parent_handoff_id="theirs")
    assert history(handoff).derived == ("a",)
    assert history(handoff).unknown == ("theirs",)


def test_thousands_of_earlier_handoffs_are_read_only_in_part(tenant: Tenant) -> None:
    first = queries.get(tenant, submit(tenant, document("a0>a1"), trace_id="t").id)
    rows = []
    for number in range(1, 3000):
        way = {"source_agent_id": f"a{number}", "target_agent_id": f"a{number + 1}", "handoff_id": f"h{number}"}
        columns = {name: getattr(first, name) for name in ("tenant_id", "trace_id", "format", "state", "size_bytes")}
        rows.append(Handoff(**columns, **way, received_at=first.received_at, derives_chain=True))
    Handoff.objects.bulk_create(rows)
    known = history(queries.get(tenant, "h2999"))
    assert known.derived_full is not None
    assert (len(known.derived_full), known.derived_complete) == (201, False)
    by_parents = [
        Handoff(**columns, handoff_id=f"p{n}", parent_handoff_id=f"p{n - 1}", source_agent_id="a", target_agent_id="b",
                received_at=first.received_at, derives_chain=True)
        for n in range(3000)
    ]  # fmt: skip
    Handoff.objects.bulk_create(by_parents)
    assert history(queries.get(tenant, "p2999")).derived_complete is False


def test_parents_in_a_circle_end(tenant: Tenant) -> None:
    submit(tenant, document("a>b", handoff_id="1"), trace_id="t", parent_handoff_id="2")
    submit(tenant, document("b>a", handoff_id="2"), trace_id="t", parent_handoff_id="1")
    judge.drain()
    assert history(queries.get(tenant, "1")).derived_complete is False


def test_a_stored_handoff_is_judged_again_by_the_derived_chain(tenant: Tenant) -> None:
    made = walk(tenant, ["triage>researcher", *islice(cycle(LOOP), 12)])
    assert made[-1].derives_chain
    assert history(made[-1]).returns == 6


def test_a_derived_chain_is_drawn_alone(tenant: Tenant) -> None:
    made = walk(tenant, ["triage>researcher", *islice(cycle(LOOP), 12)])
    for handoff in made:
        drawing = draw_chain(Chain.of_verdict(chain_of(handoff)), standalone=True)
        assert "Declared by the sender" not in drawing.svg
        assert "Derived by the server" in drawing.svg
        assert handoff.source_agent_id in drawing.svg
    assert "loop" in drawing.svg
