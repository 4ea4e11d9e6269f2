"""Tests of the events of one task: in any order, repeated, from several sessions and tenants."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.hooks import handler
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.models import HandedOut, Handoff, HookEvent, State, ValidationState
from tests.handoffs.hooks.support import FOUND, PROMPT, SESSION, after, before, launched, not_met, start, stop, worker
from tests.handoffs.support import SENDER, at_once
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)
ELSEWHERE = "11111111-51aa-4f6c-9d59-2b1f6a4a7c10"


# Seconds to wait for a verdict, which takes seconds where several groups of tests share the machine.
WAIT = 60.0


def tell(tenant: Tenant, event: dict[str, Any], *, key: str = "", seconds: float = 0.0) -> dict[str, Any]:
    return handler.handle(tenant, SENDER, orjson.dumps(event), key, seconds)


def work() -> None:
    judge.drain()
    run.drain()


def opened(tenant: Tenant) -> list[str]:
    """Return the target agents of the open tasks."""
    rows = Handoff.objects.filter(tenant=tenant, open=True).order_by("id")
    return [row.target_agent_id for row in rows]


def other(target: str) -> dict[str, Any]:
    return {"tool_input": {"prompt": PROMPT, "subagent_type": target}}


@pytest.fixture
def workers(model: MessagesServer) -> Iterator[MessagesServer]:
    with worker():
        yield model


def test_a_task_is_open_until_its_end_is_reported(tenant: Tenant) -> None:
    tell(tenant, before())
    tell(tenant, start())
    work()
    assert opened(tenant) == ["bookkeeper"]
    assert Handoff.objects.get().state == State.ACCEPTED
    tell(tenant, after())
    assert opened(tenant) == []


def test_an_agent_in_the_background_is_open_until_it_stops(tenant: Tenant) -> None:
    tell(tenant, before())
    answer = tell(tenant, launched())
    assert (answer["status"], opened(tenant)) == ("NOT_APPLICABLE", ["bookkeeper"])
    tell(tenant, start())
    assert opened(tenant) == ["bookkeeper"]
    tell(tenant, stop())
    assert opened(tenant) == []
    out, back = Handoff.objects.order_by("id")
    assert (back.parent_handoff_id, back.source_agent_id) == (out.handoff_id, "bookkeeper")


def test_what_an_agent_in_the_background_says_is_held_against_its_task(workers: MessagesServer, tenant: Tenant) -> None:
    for event in (before(), launched(), start()):
        tell(tenant, event, seconds=WAIT)
    workers.script(not_met())
    answer = tell(tenant, stop(), seconds=WAIT)
    assert (answer["status"], answer["decision"]) == ("FAILED", "block")
    document = orjson.loads(bytes(Handoff.objects.order_by("id")[1].body.original))
    assert document["tool"]["result"] == stop()["last_assistant_message"]
    assert document["event"] | {"last_assistant_message": FOUND} == stop()
    assert document["tool"]["parameters"] == before()["tool_input"]


def test_the_document_of_a_result_keeps_the_digits_of_long_integers(tenant: Tenant) -> None:
    wei = b'"wei":100000000000000000001'
    call = before() | {"tool_input": before()["tool_input"] | {"wei": 0}}
    for event in (call, start(), stop() | {"wei": 0}):
        handler.handle(tenant, SENDER, orjson.dumps(event).replace(b'"wei":0', wei), "", 0.0)
    back = Handoff.objects.get(format="delegation")
    assert bytes(back.body.original).count(wei) == 2


@pytest.mark.parametrize("deep", ["call", "event"])
def test_a_result_is_stored_without_its_call_if_both_together_are_nested_too_deeply(tenant: Tenant, deep: str) -> None:
    call, event = before(), stop()
    (call["tool_input"] if deep == "call" else event)["more"] = orjson.loads(b"[" * 62 + b"]" * 62)
    if deep == "event":
        event["more"] = [event["more"]]
    for one in (call, start(), event):
        tell(tenant, one)
    work()
    assert list(Handoff.objects.order_by("id").values_list("state", "format")) == [("accepted", "claude-code")] * 2


def test_a_launched_agent_of_which_nothing_was_told_before_is_an_open_task(tenant: Tenant) -> None:
    tell(tenant, launched())
    (handoff,) = Handoff.objects.all()
    assert (handoff.source_agent_id, handoff.target_agent_id, handoff.open) == ("main", "bookkeeper", True)
    tell(tenant, stop())
    assert opened(tenant) == []
    assert Handoff.objects.count() == 2


def test_an_agent_of_which_only_its_begin_is_told_is_an_open_task(tenant: Tenant) -> None:
    tell(tenant, start())
    assert opened(tenant) == ["bookkeeper"]
    work()
    answer = tell(tenant, stop())
    work()
    answer = tell(tenant, stop())
    assert (answer["status"], opened(tenant)) == ("NOT_APPLICABLE", [])
    assert [row.state for row in Handoff.objects.order_by("id")] == ["accepted", "accepted"]


def test_an_agent_of_which_only_its_end_is_told_is_kept_and_not_open(tenant: Tenant) -> None:
    answer = tell(tenant, stop())
    assert (answer["status"], opened(tenant)) == ("UNKNOWN", [])
    work()
    assert tell(tenant, stop())["status"] == "NOT_APPLICABLE"
    (handoff,) = Handoff.objects.all()
    assert (handoff.source_agent_id, handoff.target_agent_id, handoff.state) == ("bookkeeper", "main", "accepted")


def test_an_end_that_is_told_before_the_begin_closes_it(tenant: Tenant) -> None:
    """Events that waited for the server arrive late."""
    tell(tenant, after())
    tell(tenant, before())
    tell(tenant, start())
    assert opened(tenant) == []
    assert Handoff.objects.count() == 2


def test_a_stop_that_is_told_before_the_start_closes_it(tenant: Tenant) -> None:
    tell(tenant, stop())
    tell(tenant, start())
    assert opened(tenant) == []


def test_a_begin_that_is_told_after_its_agent_started_is_one_open_task_once_the_call_returns(tenant: Tenant) -> None:
    tell(tenant, start())
    tell(tenant, before())
    assert opened(tenant) == ["bookkeeper", "bookkeeper"]
    tell(tenant, launched())
    assert opened(tenant) == ["bookkeeper"]
    tell(tenant, stop())
    assert opened(tenant) == []


def test_two_tasks_of_one_kind_are_not_taken_for_each_other(workers: MessagesServer, tenant: Tenant) -> None:
    tell(tenant, before("c1"), seconds=WAIT)
    tell(tenant, before("c2") | {"tool_input": {"prompt": "Count.", "subagent_type": "bookkeeper"}}, seconds=WAIT)
    for agent in ("a1", "a2"):
        answer = tell(tenant, start(agent), seconds=WAIT)
        assert "Several tasks" in answer["reason"]
    assert "Several tasks" in tell(tenant, stop("a2", text="Seven."), seconds=WAIT)["reason"]
    assert not workers.requests
    answer = tell(tenant, after("c2", text="Seven.", agent="a2") | {"tool_input": {"prompt": "Count."}}, seconds=WAIT)
    assert (answer["status"], len(opened(tenant))) == ("PASSED", 1)
    assert "Count." in workers.requests[0].content
    tell(tenant, after("c1", agent="a1"), seconds=WAIT)
    assert opened(tenant) == []


def test_what_the_call_says_counts_more_than_what_seemed(tenant: Tenant) -> None:
    """The only open task seemed to belong to the agent, but the agent belonged to a task that was reported later."""
    tell(tenant, before("c1"))
    tell(tenant, start("a2"))
    tell(tenant, before("c2"))
    tell(tenant, after("c2", agent="a2"))
    (left,) = Handoff.objects.filter(open=True)
    assert left.handoff_id.startswith("c1:")
    tell(tenant, stop("a1"))
    assert opened(tenant) == []


def test_two_sessions_with_the_same_ids_are_two_tasks(tenant: Tenant) -> None:
    there = {"session_id": ELSEWHERE}
    tell(tenant, before())
    tell(tenant, before() | there)
    tell(tenant, start())
    tell(tenant, start() | there)
    assert len(opened(tenant)) == 2
    tell(tenant, stop() | there)
    (left,) = Handoff.objects.filter(open=True)
    assert left.trace_id == SESSION


def test_sessions_that_only_begin_alike_are_strangers(tenant: Tenant) -> None:
    long = "s" * 200
    tell(tenant, before() | {"session_id": long + "a"})
    tell(tenant, after() | {"session_id": long + "b"})
    assert len(opened(tenant)) == 1
    assert HandedOut.objects.count() == 2


@pytest.mark.parametrize("ending", [after, stop, launched, start])
def test_another_tenants_session_is_never_joined(ending, tenant: Tenant, other_tenant: Tenant) -> None:
    tell(tenant, before())
    tell(tenant, start())
    before_it = list(HandedOut.objects.values())
    tell(other_tenant, ending())
    assert opened(tenant) == ["bookkeeper"]
    assert list(HandedOut.objects.filter(tenant=tenant).values()) == before_it
    theirs = Handoff.objects.get(tenant=other_tenant)
    assert theirs.parent_handoff_id == ""
    assert PROMPT not in bytes(theirs.body.original).decode() or ending in (after, launched)


def test_the_same_key_in_two_tenants_is_two_events(tenant: Tenant, other_tenant: Tenant) -> None:
    mine, theirs = (tell(one, after(), key="k") for one in (tenant, other_tenant))
    assert mine["handoff_id"] != theirs["handoff_id"]
    assert Handoff.objects.get(tenant=other_tenant).pk.hex == theirs["handoff_id"].replace("-", "")


@pytest.mark.parametrize("event", [before(), after(), start(), stop(), launched()])
@pytest.mark.parametrize("key", ["", "k1"])
def test_an_event_that_comes_again_is_answered_the_same_and_stored_once(
    event: dict[str, Any], key: str, workers: MessagesServer, tenant: Tenant
) -> None:
    first = tell(tenant, event, key=key, seconds=WAIT)
    stored = [model.objects.count() for model in (Handoff, HandedOut, HookEvent, ValidationState)]
    assert [tell(tenant, event, key=key, seconds=WAIT) for _ in range(3)] == [first] * 3
    assert [model.objects.count() for model in (Handoff, HandedOut, HookEvent, ValidationState)] == stored
    assert len(workers.requests) <= 1


def test_two_hooks_on_one_event_are_one_handoff(workers: MessagesServer, tenant: Tenant) -> None:
    """A command hook and a URL hook both send the event, each with its own key or without a key."""
    for event in (before(), after()):
        keys = ("", f"command {event['hook_event_name']}", f"url {event['hook_event_name']}")
        answers = [tell(tenant, event, key=key, seconds=WAIT)["handoff_id"] for key in keys]
        assert len(set(answers)) == 1
    assert (Handoff.objects.count(), len(workers.requests)) == (2, 1)


def test_a_task_that_was_told_again_after_its_end_stays_closed(tenant: Tenant) -> None:
    for event in (before(), after(), before()):
        tell(tenant, event, key=event["hook_event_name"])
    tell(tenant, before(), key="another")
    assert opened(tenant) == []


@pytest.mark.parametrize("key", ["", "k1"])
def test_duplicates_at_the_same_moment_are_one(key: str, workers: MessagesServer, tenant: Tenant) -> None:
    tell(tenant, before(), seconds=WAIT)
    answers = at_once(*[lambda: tell(tenant, after(), key=key, seconds=30)] * 5)
    assert {answer["status"] for answer in answers} == {"PASSED"}
    assert len({answer["handoff_id"] for answer in answers}) == 1
    assert (Handoff.objects.count(), HandedOut.objects.count(), ValidationState.objects.count()) == (2, 1, 1)
    assert (len(workers.requests), opened(tenant)) == (1, [])


def test_begin_and_end_at_the_same_moment_leave_nothing_open(workers: MessagesServer, tenant: Tenant) -> None:
    for number in range(5):
        call, agent = f"c{number}", f"a{number}"
        events = [before(call), after(call, agent=agent), start(agent), stop(agent)]
        answers = at_once(*[lambda event=event: tell(tenant, event, seconds=30) for event in events])
        assert all(isinstance(answer, dict) for answer in answers), answers
    # A start that was seen before its task may be known only as such: the call that returned closes it.
    assert opened(tenant) == []


def test_events_without_ids_are_each_on_their_own(tenant: Tenant) -> None:
    bare = {name: value for name, value in after().items() if name not in ("session_id", "tool_use_id")}
    tell(tenant, before() | {"session_id": "", "tool_use_id": ""})
    tell(tenant, bare)
    tell(tenant, stop() | {"session_id": ""})
    work()
    assert Handoff.objects.count() == 3
    assert {row.state for row in Handoff.objects.all()} == {"rejected"}


def test_the_same_text_from_another_task_is_another_handoff(tenant: Tenant) -> None:
    for call, agent in (("c1", "a1"), ("c2", "a2")):
        tell(tenant, before(call))
        tell(tenant, after(call, agent=agent, text=FOUND))
    assert Handoff.objects.filter(format="delegation").count() == 2


def test_a_handoff_that_is_gone_is_stored_anew(workers: MessagesServer, tenant: Tenant) -> None:
    for event in (before(), launched(), stop()):
        tell(tenant, event, seconds=WAIT)
    Handoff.objects.filter(format="delegation").delete()
    assert tell(tenant, after(), key="new", seconds=WAIT)["status"] == "PASSED"
    assert Handoff.objects.filter(format="delegation").count() == 1


def test_an_inner_task_has_the_outer_one_as_its_parent(tenant: Tenant) -> None:
    tell(tenant, before())
    tell(tenant, start())
    tell(tenant, before("c2") | other("calculator") | {"agent_id": "a81c3f", "agent_type": "bookkeeper"})
    outer, inner = Handoff.objects.order_by("id")
    assert (inner.source_agent_id, inner.target_agent_id) == ("bookkeeper", "calculator")
    assert inner.parent_handoff_id == outer.handoff_id
