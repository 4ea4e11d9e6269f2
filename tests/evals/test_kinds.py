"""Tests of the conversion of lines of public corpora into handoffs by the description of the data."""

import json

from evals.kinds import KINDS
from tests.evals.support import chat, measured

RUN = {
    "trace_id": "run-1",
    "success": True,
    "policy": "policies/shop.md",
    "turns": [
        {"step": 1, "agent": "user", "role": "user", "content": "Cancel it."},
        {"step": 2, "agent": "assistant", "role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "cancel", "arguments": '{"order": 4711}'}}]},
        {"step": 3, "agent": "cancel", "role": "tool", "content": "done"},
        {"step": 4, "agent": "assistant", "role": "assistant", "content": "It is cancelled."},
        {"step": 5, "agent": "user", "role": "user", "content": "Thanks."},
    ],
}  # fmt: skip
TASK = {
    "id": "task-1",
    "source_agent_id": "architect",
    "created_by": "architect",
    "target_agent_id": "builder",
    "status": "done",
    "created_at": "2026-02-01T08:00:00Z",
    "data": {"title": "Build it"},
    "context": {"branch": "main"},
    "result": {"summary": "Built."},
    "claimed_paths": [
        {"path": "src/there.py", "exists_now": True, "ever_existed": True},
        {"path": "src/moved.py", "exists_now": False, "ever_existed": True},
    ],
}


def items_of(line, beside=lambda name: None):
    kind = KINDS.recognise(line)
    assert kind is not None
    return list(kind.items(line, beside))


def test_earlier_turns_keep_their_tool_calls():
    calls = RUN["turns"][1]["tool_calls"]
    last = items_of(RUN)[-1]
    assert last.envelope.context["earlier"] == [
        {"agent": "user", "text": "Cancel it."},
        {"agent": "assistant", "text": "", "tool_calls": calls},
        {"agent": "cancel", "text": "done"},
    ]


def test_a_value_of_an_agents_own_call_is_grounded():
    turns = [dict(turn) for turn in RUN["turns"]]
    turns[3]["content"] = "The order 4711 is cancelled."
    figures = measured({**RUN, "turns": turns}, layers=("grounding",)).figures()
    assert figures["flagged"] == 0


def test_a_work_order_declares_its_token_count():
    (item,) = items_of(TASK)
    assert item.document["handoff"]["meta"]["token_count"] > 50
    assert measured(TASK, layers=("structure", "tokens")).figures()["flagged"] == 0


def test_neighbouring_turns_are_one_block_and_each_border_a_handoff():
    line = chat(
        ("asker", "Look."), ("asker", "Well?"), ("solver", "240."), ("checker", "Right."), ("solver", "Done."),
        mistake_step=2,
    )  # fmt: skip
    first, second, third = items_of(line)
    assert first.document["data"] == {"text": "Look.\nWell?"}
    assert (first.document["source_agent_id"], first.document["target_agent_id"]) == ("asker", "solver")
    assert second.envelope.context == {
        "question": "What does the order cost?",
        "earlier": [{"agent": "asker", "text": "Look.\nWell?"}],
    }
    assert third.document["call_chain"] == ["asker", "solver", "checker"]
    assert [one.envelope.step for one in (first, second, third)] == [1, 2, 3]
    # What comes after the mistake may carry it on.
    assert [one.label.faulty for one in (first, second, third)] == [False, True, None]


def test_nothing_of_the_label_is_in_the_handoff():
    line = chat(("asker", "Look."), ("solver", "200."), ("checker", "Right."), mistake_step=1)
    seen = json.dumps([[one.document, one.envelope.context] for one in items_of(line)])
    assert "240 EUR" not in seen
    assert "guessed" not in seen


def test_a_named_receiver_is_the_target():
    line = chat(("asker", "Look."), ("solver", "240."), mistake_step=1)
    line["turns"][0]["to"] = "team"
    assert items_of(line)[0].document["target_agent_id"] == "team"


def test_a_run_that_succeeded_is_sound_and_rests_on_its_policy():
    items = items_of(RUN, {"policies/shop.md": "Cancel on demand."}.get)
    assert [(one.document["source_agent_id"], one.document["target_agent_id"]) for one in items] == [
        ("user", "assistant"), ("assistant", "cancel"), ("cancel", "assistant"), ("assistant", "user"),
    ]  # fmt: skip
    assert items[1].document["data"] == {"arguments": [{"order": 4711}]}
    assert items[3].envelope.context["policy"] == "Cancel on demand."
    assert {one.label.faulty for one in items} == {False}


def test_of_a_run_that_failed_only_the_named_steps_are_known():
    failed = RUN | {"success": False, "annotation": {"failures": [{"step": 2, "agent": "assistant"}]}}
    assert [one.label.faulty for one in items_of(failed)] == [None, True, None, None]


def test_claimed_files_are_looked_up_where_they_are_now():
    figures = measured(TASK, layers=("references",)).figures()
    assert figures["kind"] == "tasks"
    # The moved one is an honest claim that can't be seen any more.
    assert (figures["sound"], figures["flagged_sound"]) == (1, 1)
    invented = TASK | {"claimed_paths": [{"path": "src/none.py", "exists_now": False, "ever_existed": False}]}
    assert measured(invented, layers=("references",)).figures()["flagged_faulty"] == 1
    assert items_of(TASK | {"claimed_paths": []})[0].label.faulty is None
