"""Tests of loops, lengths, and chains that the server knows better than the sender."""

from itertools import permutations

import pytest

from handoffaudit.validation.config import CircularPolicy
from handoffaudit.validation.layers import History

from ..support import codes, judge, payload, universal

LONG = ["a", "b", "c", "d", "e", "researcher"]


@pytest.mark.parametrize(
    ("reason", "policy", "code"),
    [
        ("", CircularPolicy.HOLD, "chain.circular"),
        ("  ", CircularPolicy.HOLD, "chain.circular"),
        ("why", CircularPolicy.HOLD, "chain.circular_with_reason"),
        ("", CircularPolicy.REJECT, "chain.circular"),
        ("why", CircularPolicy.REJECT, "chain.circular"),
        ("", CircularPolicy.ALLOW, "chain.circular"),
        ("why", CircularPolicy.ALLOW, None),
    ],
)
def test_circular(reason: str, policy: CircularPolicy, code: str | None) -> None:
    document = payload(target_agent_id="planner", handoff_reason=reason)
    verdict = judge(document, policy={"circular_policy": policy})
    assert codes(verdict) == ([code] if code else [])
    assert verdict.chain is not None
    assert verdict.chain.loop == ((0,) if code else ())


@pytest.mark.parametrize(
    ("policy", "hint"),
    [
        (CircularPolicy.HOLD, "so that a person can decide"),
        (CircularPolicy.REJECT, "accepts no reason"),
        (CircularPolicy.ALLOW, "which this type accepts"),
    ],
)
def test_the_hint_at_a_loop_without_a_reason_is_what_passes_for_its_type(policy: CircularPolicy, hint: str) -> None:
    (issue,) = judge(payload(target_agent_id="planner"), policy={"circular_policy": policy}).issues
    assert issue.code == "chain.circular"
    assert hint in issue.hint


def test_a_sender_does_not_approve_its_own_loop() -> None:
    assert codes(judge(payload(target_agent_id="planner", user_approved=True))) == ["chain.circular"]


def test_coming_back_is_no_loop_in_the_derived_chain() -> None:
    history = History(derived=("writer", "planner", "researcher"))
    assert codes(judge(payload(), history=history)) == ["chain.declared_differs"]


def test_every_place_of_the_loop_is_marked() -> None:
    document = payload(call_chain=["planner", "critic", "planner", "researcher"], target_agent_id="planner")
    verdict = judge(document)
    assert verdict.chain is not None
    assert verdict.chain.loop == (0, 2)
    assert verdict.issues[0].metadata["positions"] == [0, 2]
    assert "[planner] → critic → [planner] → researcher → [planner]" in verdict.issues[0].message


def test_a_self_handoff_is_not_circular_as_well() -> None:
    assert codes(judge(payload(target_agent_id="researcher"))) == ["chain.self_handoff"]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (5, []),
        (6, ["chain.needs_approval"]),
        (10, ["chain.needs_approval"]),
        (11, ["chain.needs_approval", "chain.over_recommended"]),
    ],
)
def test_length(length: int, expected: list[str]) -> None:
    chain = [f"agent-{n}" for n in range(length - 1)] + ["researcher"]
    verdict = judge(payload(call_chain=chain))
    assert codes(verdict) == expected
    assert verdict.chain is not None
    assert verdict.chain.over_from == (5 if expected else None)


def test_a_long_chain_that_names_agents_again_says_how_many_agents_it_has() -> None:
    (issue,) = judge(payload(call_chain=["hub", "a", "hub", "a", "hub", "researcher"])).issues
    assert issue.message.startswith(
        "The chain has 6 entries from 3 agents, over the 5 entries allowed without approval: hub → a → hub"
    )


def test_an_approved_long_chain_passes() -> None:
    assert codes(judge(payload(call_chain=LONG, user_approved=True))) == []
    assert codes(judge(universal(meta={"handoff_chain": ["curator", *"abcde"], "user_approved": True}))) == []


def test_limits_are_the_policys() -> None:
    assert codes(judge(payload(call_chain=LONG), policy={"approval_length": 6})) == []


def test_limits_apply_to_the_longer_chain() -> None:
    verdict = judge(payload(), history=History(derived=tuple(LONG)))
    assert codes(verdict) == ["chain.needs_approval", "chain.declared_differs"]
    assert verdict.chain is not None
    assert verdict.chain.shown == tuple(LONG)
    assert "by the server's count" in verdict.issues[0].message


@pytest.mark.parametrize(
    ("history", "agrees"),
    [
        (History(derived=("planner", "researcher")), True),
        (History(derived=("researcher",), derived_full=("planner", "researcher")), True),
        (History(derived=("researcher",)), False),
        (History(derived=("researcher",), derived_complete=False), True),
        (History(derived=("critic", "researcher"), derived_complete=False), False),
        (History(derived=("a", "planner", "researcher"), derived_complete=False), False),
        (History(), True),
    ],
)
def test_declared_and_derived(history: History, agrees: bool) -> None:
    assert codes(judge(payload(), history=history)) == ([] if agrees else ["chain.declared_differs"])


def test_both_chains_are_shown_where_they_differ() -> None:
    (issue,) = judge(payload(), history=History(derived=("critic", "researcher"))).issues
    assert issue.metadata["declared"] == ["planner", "researcher"]
    assert issue.metadata["derived"] == ["critic", "researcher"]


def test_a_chain_that_was_not_declared_does_not_differ() -> None:
    document = universal()
    del document["handoff"]["meta"]["handoff_chain"]
    assert codes(judge(document, history=History(derived=("architect", "curator")))) == []


@pytest.mark.parametrize("repeats", [0, 1, 2, 3, 20])
def test_repeats_are_an_error_from_the_third_time_on(repeats: int) -> None:
    expected = ["chain.repeats_without_progress"] if repeats >= 2 else []
    assert codes(judge(payload(), history=History(repeats=repeats))) == expected


@pytest.mark.parametrize(("received", "is_told"), [(0, True), (2, True), (3, False), (4, False)])
def test_the_answers_of_a_loop_have_no_finding_of_their_own(received: int, is_told: bool) -> None:
    verdict = judge(payload(), history=History(repeats=3, repeats_received=received))
    assert codes(verdict) == (["chain.repeats_without_progress"] if is_told else [])


def test_long_chains_and_names_are_cut_in_messages() -> None:
    chain = ["n" * 200] * 50_000 + ["researcher"]
    verdict = judge(payload(call_chain=chain), policy={"token_budget": 10**9})
    assert all(len(issue.message) <= 600 for issue in verdict.issues)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (payload(target_agent_id="planner", handof_reason="why"), '"handoff_reason" by "handof_reason"'),
        (payload(target_agent_id="planner", handoffReason="why"), '"handoff_reason" by "handoffReason"'),
        (
            payload(target_agent_id="planner", handoff_reason="", handof_reason="why"),
            '"handoff_reason" by "handof_reason"',
        ),
        (payload(target_agent_id="planner"), None),
        (
            universal(meta={"handoff_chain": ["a", "editor"], "handoff_reson": "why"}, target={"skill": "a"}),
            '"handoff_reason" by "handoff_reson"',
        ),
    ],
)
def test_a_misspelt_reason_is_asked_for(document: dict[str, object], told: str | None) -> None:
    (issue,) = [issue for issue in judge(document).issues if issue.code == "chain.circular"]
    assert f"Did you mean {told}?" in issue.hint if told else "Did you mean" not in issue.hint


def test_of_several_misspelt_names_one_is_asked_for_whatever_their_order() -> None:
    names = ("handofReason", "handof_reason", "handof-reason")
    asked = {
        issue.hint
        for order in permutations(names)
        for issue in judge(payload(target_agent_id="planner", **dict.fromkeys(order, "why"))).issues
        if issue.code == "chain.circular"
    }
    assert len(asked) == 1


def test_a_misspelt_reason_is_not_asked_for_where_none_is_accepted() -> None:
    document = payload(target_agent_id="planner", handof_reason="why")
    (issue,) = judge(document, policy={"circular_policy": CircularPolicy.REJECT}).issues
    assert issue.hint.startswith("This type accepts no reason")


def test_a_misspelt_approval_is_asked_for() -> None:
    (issue,) = judge(payload(call_chain=LONG, user_aproved=True)).issues
    assert (issue.code, '"user_aproved"' in issue.hint) == ("chain.needs_approval", True)


@pytest.mark.parametrize(
    "fields",
    [
        {"user_approved": False, "user_aproved": True},
        {"user_approved_by": "Ada"},
        {"user_approved": False, "user_approved_by": "Ada"},
        {"userApprovedAt": "2026-02-01"},
    ],
)
def test_an_approval_that_is_given_or_a_field_of_its_own_is_not_asked_for(fields: dict[str, object]) -> None:
    (issue,) = judge(payload(call_chain=LONG, **fields)).issues
    assert (issue.code, "Did you mean" in issue.hint) == ("chain.needs_approval", False)
