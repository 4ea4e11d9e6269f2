"""Tests of events that wait for their server: no loss, no double count, the same order."""

import json
import signal
import stat
import time

import pytest

from handoffaudit.cli.hook_server import OutOfTime, Server, Undelivered
from tests.cli.hooks.conftest import BLOCKED, KEY, PASSED, SmallGate, event, serving
from tests.running.conftest import wait_for
from tests.scale import NIGHTLY

AT_ONCE = 16 if NIGHTLY else 4


def numbered(number: int) -> dict:
    return event(session_id=f"session-{number}")


def numbers(requests) -> list[int]:
    return [int(one.body["session_id"].removeprefix("session-")) for one in requests]


def test_where_the_server_is_away_the_event_is_allowed_and_kept_for_its_user_alone(hook_without_server):
    hook = hook_without_server
    done = hook(event(), "--block-exit", "2")
    assert done.returncode == 0
    assert done.stderr.startswith(f"Warning: {hook.url} can't be reached")
    assert done.stderr.count("\n") == 1
    assert [json.loads(one["body"]) for one in hook.kept()] == [event()]
    files = [path for path in (hook.folder / "spool").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert KEY not in "".join(path.read_text() for path in files)


def test_a_later_event_takes_what_waits_along_the_oldest_first(hook_without_server, closed_gate):
    hook = hook_without_server
    for number in range(3):
        hook(numbered(number))
    ids = [one["id"] for one in hook.kept()]
    with serving(closed_gate):
        assert hook(numbered(3)).stderr == ""
    assert numbers(closed_gate.taken) == [0, 1, 2, 3]
    assert [one.id for one in closed_gate.taken][:3] == ids
    assert hook.kept() == []


def test_flush_sends_all_and_says_how_it_went(hook_without_server, closed_gate):
    hook = hook_without_server
    for number in range(3):
        hook(numbered(number))
    away = hook("", "--flush")
    assert (away.returncode, away.stdout) == (1, "0 sent, 0 set aside, 3 waiting.\n")
    with serving(closed_gate):
        done = hook("", "--flush")
        assert (done.returncode, done.stdout, done.stderr) == (0, "3 sent, 0 set aside, 0 waiting.\n", "")
        assert hook("", "--flush").stdout == "0 sent, 0 set aside, 0 waiting.\n"
    assert numbers(closed_gate.taken) == [0, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_hook_that_is_ended_while_it_asks_has_kept_its_event(hook, gate, number):
    gate.seconds = 300
    process = hook.start(numbered(1))
    wait_for(lambda: gate.taken)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (0 if number is signal.SIGTERM else -signal.SIGKILL)
    gate.seconds = 0
    assert hook("", "--flush").stdout == "1 sent, 0 set aside, 0 waiting.\n"
    assert len(gate.requests) == 2
    assert numbers(gate.taken) == [1]


def test_killed_again_and_again_while_it_sends_it_loses_nothing_and_keeps_the_order(hook_without_server, closed_gate):
    hook, gate = hook_without_server, closed_gate
    for number in range(12):
        hook(numbered(number))
    gate.seconds = 0.05
    with serving(gate):
        for seen in (1, 4, 7):
            process = hook.start("", "--flush")
            wait_for(lambda seen=seen: len(gate.taken) > seen)
            process.kill()
            process.communicate()
        assert hook("", "--flush").returncode == 0
    assert numbers(gate.taken) == list(range(12))
    assert len(gate.requests) > len(gate.taken)
    assert hook.kept() == []


def test_what_another_hook_still_asks_about_is_left_to_it(hook, gate):
    gate.seconds = 50
    first = hook.start(numbered(1))
    wait_for(lambda: gate.taken)
    gate.seconds = 0
    assert hook(numbered(2)).returncode == 0
    assert hook("", "--flush").stdout.startswith("0 sent")
    gate.goes_on.set()
    first.communicate()
    assert numbers(gate.requests) == [1, 2]
    assert hook.kept() == []


def test_hooks_at_once_while_the_server_comes_and_goes(hook_without_server, closed_gate):
    hook, gate = hook_without_server, closed_gate
    before = [hook.start(numbered(number)) for number in range(AT_ONCE)]
    assert [process.wait() for process in before] == [0] * AT_ONCE
    assert len({one["id"] for one in hook.kept()}) == AT_ONCE
    order = [json.loads(one["body"]) for one in hook.kept()]
    with serving(gate):
        after = [hook.start(numbered(number)) for number in range(AT_ONCE, 2 * AT_ONCE)]
        assert [process.wait() for process in after] == [0] * AT_ONCE
        hook("", "--flush")
    for process in before + after:
        process.communicate()
    assert sorted(numbers(gate.taken)) == list(range(2 * AT_ONCE))
    assert [one.body for one in gate.taken if one.body in order] == order
    assert hook.kept() == []


def test_an_event_that_the_server_never_takes_is_set_aside_with_the_reason(hook_without_server, closed_gate):
    hook, gate = hook_without_server, closed_gate
    for number in range(3):
        hook(numbered(number))
    poison = numbered(1)
    gate.answer = lambda one: (413, {"title": "Too large"}) if one.body == poison else (200, PASSED)
    with serving(gate):
        done = hook("", "--flush")
    assert (done.returncode, done.stdout) == (1, "2 sent, 1 set aside, 0 waiting.\n")
    assert numbers(gate.taken) == [0, 2]
    assert [(one["reason"], json.loads(one["body"])) for one in hook.aside()] == [("413: Too large", poison)]


def test_an_own_event_that_the_server_does_not_take_is_allowed_and_set_aside(hook, gate):
    gate.answers({"title": "Unprocessable"}, status=422)
    done = hook(event(), "--block-exit", "2")
    assert done.returncode == 0
    assert "The server does not take the event: 422: Unprocessable." in done.stderr
    assert len(hook.aside()) == 1
    assert hook.kept() == []


@pytest.mark.parametrize(
    ("status", "said", "tried"),
    [
        (401, "refuses the key (401: No)", [0, 0]),
        (404, "has no gate for hooks (404: No): check the address", [0, 0]),
        (503, "is busy or broken (503: No)", [0, 0, 1]),
        (302, "has no gate for hooks (302: No)", [0, 0]),
    ],
)
def test_a_wrong_key_or_address_or_a_busy_server_is_no_fault_of_the_event(hook, gate, status, said, tried):
    gate.answers({"title": "No"}, status=status)
    for number in range(2):
        done = hook(numbered(number))
        assert done.returncode == 0
        assert said in done.stderr
    assert len(hook.kept()) == 2
    # With a wrong key or address, the second is not even tried: what waits before it goes first.
    assert numbers(gate.requests) == tried
    gate.answers(PASSED)
    assert hook("", "--flush").stdout == "2 sent, 0 set aside, 0 waiting.\n"


@pytest.mark.parametrize("status", [500, 502])
def test_an_event_at_which_the_server_fails_keeps_back_no_other(hook, gate, status):
    gate.answer = lambda one: (status, {"title": "Bug"}) if numbers([one]) == [0] else (200, BLOCKED)
    hook(numbered(0))
    done = hook(numbered(1), "--block-exit", "2")
    assert done.returncode == 2
    assert f"An earlier event was not sent: {gate.url} is busy or broken ({status}: Bug)." in done.stderr
    # For some minutes, the event is not tried again.
    done = hook(numbered(2), "--block-exit", "2")
    assert (done.returncode, "from before" in done.stderr) == (2, False)
    assert numbers(gate.requests) == [0, 0, 1, 2]
    gate.answers(PASSED)
    assert hook("", "--flush").stdout == "1 sent, 0 set aside, 0 waiting.\n"
    assert numbers(gate.taken) == [1, 2, 0]


def test_many_events_at_which_the_server_fails_keep_back_no_other(hook_without_server, closed_gate):
    hook, gate = hook_without_server, closed_gate
    for number in range(6):
        hook(numbered(number))
    gate.answer = lambda one: (500, {"title": "Bug"}) if numbers([one])[0] < 4 else (200, PASSED)
    with serving(gate):
        for number in (6, 7):
            hook(numbered(number))
        # A broken server is not asked about every event.
        assert numbers(gate.requests) == [0, 1, 2, 6, 3, 4, 5, 7]
        assert hook("", "--flush").stdout == "0 sent, 0 set aside, 4 waiting.\n"
    assert [json.loads(one["body"]) for one in hook.kept()] == [numbered(number) for number in range(4)]


def test_a_long_event_has_time_in_proportion(monkeypatch):
    limits = []

    def limit(seconds):
        limits.append(seconds)
        raise OutOfTime

    monkeypatch.setattr("handoffaudit.cli.hook_server.time_limit", limit)
    for size, seconds in ((1000, 65.0), (1000, 0.0), (8 * 1024**2, 65.0), (8 * 1024**2, 0.0)):
        with pytest.raises(Undelivered, match="gave no answer within"):
            Server("http://127.0.0.1:9", KEY).post("x" * size, "id", seconds)
    assert [round(one) for one in limits] == [70, 5, 70, 69]


def test_a_server_that_does_not_answer_in_time_is_away(hook, gate):
    gate.seconds = 300
    began = time.monotonic()
    done = hook(event(), "--timeout", "1")
    assert time.monotonic() - began < 100
    assert done.returncode == 0
    assert f"{gate.url} gave no answer within 6 s" in done.stderr
    assert len(hook.kept()) == 1
    gate.seconds = 0


def test_a_file_that_is_no_event_is_set_aside(hook_without_server, closed_gate):
    hook = hook_without_server
    hook(numbered(1))
    hook(numbered(2))
    first = min((hook.folder / "spool").glob("*/*.json"))
    first.write_text('{"id": "half')
    with serving(closed_gate):
        assert hook("", "--flush").stdout == "1 sent, 1 set aside, 0 waiting.\n"
    assert hook.aside()[0]["raw"] == '{"id": "half'
    assert numbers(closed_gate.taken) == [2]


def test_a_full_spool_says_so_and_keeps_what_it_has(hook_without_server, closed_gate):
    hook = hook_without_server
    hook(numbered(0) | {"filler": "x" * 1024 * 1024})
    done = hook(numbered(1), "--spool-mib", "1")
    assert done.returncode == 0
    assert "The event can't be kept, and is lost if the server is away" in done.stderr
    assert "holds more than 1 MiB" in done.stderr
    assert "it is lost" in done.stderr
    assert len(hook.kept()) == 1
    with serving(closed_gate):
        assert hook(numbered(2), "--spool-mib", "1").returncode == 0
    assert numbers(closed_gate.taken) == [0, 2]


def test_no_event_goes_to_another_server_or_with_another_key(hook_without_server, gate, closed_gate):
    hook = hook_without_server
    hook(numbered(1))
    hook(numbered(2), HANDOFFAUDIT_KEY="ha_another")
    assert hook(numbered(3), HANDOFFAUDIT_URL=gate.url).returncode == 0
    assert numbers(gate.requests) == [3]
    with serving(closed_gate):
        done = hook("", "--flush")
        assert done.stdout == "1 sent, 0 set aside, 0 waiting.\n"
        assert "1 more in" in done.stderr
        assert "or key. --any-key also sends the entries for this address" in done.stderr
        hook(numbered(4), HANDOFFAUDIT_URL="http://127.0.0.1:9")
        done = hook("", "--flush", "--any-key")
        assert done.stdout == "1 sent, 0 set aside, 0 waiting.\n"
        assert "wait for another address.\n" in done.stderr
    assert numbers(closed_gate.taken) == [1, 2]


def test_a_spool_that_cannot_be_had_stops_nobody(hook, gate):
    (hook.folder / "spool").write_text("a file")
    done = hook(event(), "--block-exit", "2")
    assert done.returncode == 0
    assert "The event can't be kept, and is lost if the server is away" in done.stderr
    assert len(gate.taken) == 1


def test_a_spool_that_others_can_look_into_is_not_used(hook_without_server):
    hook = hook_without_server
    hook(event())
    folder = next((hook.folder / "spool").iterdir())
    folder.chmod(0o755)
    assert "is not private" in hook(event()).stderr
    assert len(hook.kept()) == 1


def test_the_small_gate_of_these_tests_answers_an_id_once():
    gate = SmallGate()
    gate.answers({"n": 1}, {"n": 2})
    one = type("R", (), {"id": "a"})()
    assert gate.take(one) == gate.take(one) == (200, {"n": 1})
