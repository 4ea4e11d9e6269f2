"""Tests of the one event loop: many calls at the same time, forks, and the end of the process."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handoffaudit.llm.claude import Background
from handoffaudit.llm.errors import StoppedError
from tests.llm.asked import VALID, question
from tests.messages_api.scripted import says
from tests.scale import cases

ROOT = Path(__file__).parents[2]


def test_a_hundred_calls_from_a_hundred_threads_are_out_at_once(api, caller_of):
    """The server answers no call before it has received all of them."""
    api.respond = lambda _request: says(VALID, delay=100, until=lambda: api.most_in_flight >= 100)
    caller = caller_of(seconds=200)
    with ThreadPoolExecutor(100) as threads:
        calls = list(threads.map(lambda _: caller.call(question()), range(100)))
    assert {call.error for call in calls} == {None}
    assert api.most_in_flight == 100


def test_all_calls_share_one_thread(api, caller_of):
    caller = caller_of()
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda _: caller.call(question()), range(20)))
    assert [one.name for one in threading.enumerate()].count("handoffaudit-llm") == 1


# Later versions of Python warn of any fork beside threads; that it is safe is what these show.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_asks_for_itself_and_disturbs_nobody(api, caller_of):
    caller = caller_of()
    assert caller.call(question()).error is None
    child = os.fork()
    if child == 0:
        os._exit(0 if caller.call(question()).error is None and caller.call(question()).error is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert caller.call(question()).error is None
    assert len(api.requests) == 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_while_calls_are_out_is_safe(api, caller_of):
    api.respond = lambda _request: says(VALID, delay=0.3)
    caller = caller_of()
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(caller.call, question()) for _ in range(8)]
        time.sleep(0.1)
        child = os.fork()
        if child == 0:
            os._exit(0 if caller.call(question()).error is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert {call.result().error for call in calls} == {None}


PROGRAM = """
import sys, threading
from handoffaudit.llm.calls import Caller
from handoffaudit.llm.claude import ClaudeClient
from tests.llm.asked import question
from tests.llm.conftest import MODELS

caller = Caller(ClaudeClient("anthropic", "a-key", sys.argv[1]), MODELS)
call = caller.call(question())
print(call.error)
if sys.argv[2] == "busy":
    threading.Thread(target=caller.call, args=[question()], daemon=True).start()
    import time; time.sleep(0.3)
"""


@pytest.mark.parametrize("state", cases(["idle", "busy"], ["busy"]))
def test_the_process_ends_at_once_and_says_nothing(api, state):
    api.script(says(VALID), says(VALID, delay=300))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, api.url, state],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


def test_after_the_stop_nothing_runs():
    background = Background()
    assert background.run(asyncio.sleep(0, "done"), 1) == "done"
    background.stop()
    with pytest.raises(StoppedError):
        background.run(asyncio.sleep(0), 1)
    background.stop()


def test_what_waits_at_the_stop_is_told():
    background = Background()
    background.run(asyncio.sleep(0), 1)
    threading.Timer(0.2, background.stop).start()
    started = time.monotonic()
    with pytest.raises(StoppedError):
        background.run(asyncio.sleep(300), 300)
    assert time.monotonic() - started < 60


def test_who_stops_waiting_ends_the_call():
    background, ended = Background(), threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(300)
        finally:
            ended.set()

    async def impatient() -> None:
        async with asyncio.timeout(0.1):
            await background.run_async(slow(), 300)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert ended.wait(60)
    background.stop()
