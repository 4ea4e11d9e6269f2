"""Tests with processes that are killed, fork, or simply end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from handoffaudit_client import Client
from handoffaudit_client.testing import FakeServer

from tests.client.conftest import FOLDER, NOWHERE, finish, python

SEND = """
import sys
from handoffaudit_client import Client
url, spool, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
audit = Client(url, "ha_test", spool=spool)
for one in range(number):
    audit.send("a", "b", one, handoff_id=f"{sys.argv[4]}-{one}")
print("sent", flush=True)
"""

WAIT = "import time; time.sleep(600)\n"


def ids(prefix: str, number: int) -> set[str]:
    return {f"{prefix}-{one}" for one in range(number)}


@pytest.mark.parametrize("number", [1, 10_000])
def test_a_killed_process_loses_nothing(server: FakeServer, tmp_path: Path, number: int) -> None:
    """Part of the handoffs are sent when the process is killed, and the next process sends the others."""
    process = python(SEND + WAIT, server.url, tmp_path / "spool", number, "first")
    assert process.stdout is not None
    assert process.stdout.readline() == "sent\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    arrived = len(server.handoffs)
    with Client(server.url, server.key, spool=tmp_path / "spool") as client:
        client.send("a", "b", 0, handoff_id="second-0")
        server.wait_for(number + 1, 60)
        assert client.flush(60)
    assert set(server.handoffs) == ids("first", number) | {"second-0"}
    assert arrived <= number


def test_a_process_that_is_killed_while_it_sends_loses_nothing_it_has_sent(server: FakeServer, tmp_path: Path) -> None:
    code = SEND.replace("audit.send(", "print(one, flush=True) if one else None; audit.send(")
    process = python(code, server.url, tmp_path / "spool", 1_000_000, "h")
    assert process.stdout is not None
    last = 0
    while last < 500:
        last = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    # A number is printed when the handoff before it is sent.
    last = max([last, *(int(line) for line in process.communicate()[0].splitlines()[:-1])])
    with Client(server.url, server.key, spool=tmp_path / "spool") as client:
        client.send("a", "b", 0, handoff_id="second-0")
        server.wait_for(last + 1, 60)
        assert client.flush(60)
        wait_until(lambda: client.stats()["waiting"] == 0)
    assert ids("h", last) <= set(server.handoffs)


def wait_until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_process_that_ends_sends_what_is_left(server: FakeServer, tmp_path: Path) -> None:
    finish(python(SEND, server.url, tmp_path / "spool", 200, "h"))
    assert set(server.handoffs) == ids("h", 200)
    assert not [one for one in (tmp_path / "spool").rglob("*") if one.is_file()]


def test_a_process_ends_soon_while_the_server_is_away(server: FakeServer, tmp_path: Path) -> None:
    began = time.monotonic()
    out = finish(python(SEND, NOWHERE, tmp_path / "spool", 200, "h"))
    assert time.monotonic() - began < 8
    assert out.count("can't be reached") == 1
    # Another address is another spool.
    with Client(server.url, server.key, spool=tmp_path / "spool") as client:
        client.send("a", "b", 1)
        assert client.flush(60)
        assert client.stats()["adopted"] == 0
    assert len(server.handoffs) == 1


def test_what_is_left_at_the_end_is_sent_at_the_next_start(server: FakeServer, tmp_path: Path) -> None:
    server.stop()
    finish(python(SEND, server.url, tmp_path / "spool", 50, "h"))
    server.start()
    finish(python(SEND, server.url, tmp_path / "spool", 1, "next"))
    assert set(server.handoffs) == ids("h", 50) | {"next-0"}


def test_a_silent_server_delays_the_end_by_two_seconds_at_most(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        finish(python(SEND, url, tmp_path / "spool", 5, "h"))
        assert time.monotonic() - began < 8


FORK = """
import os, sys
from handoffaudit_client import Client
audit = Client(sys.argv[1], "ha_test", spool=sys.argv[2])
audit.send("a", "b", 0, handoff_id="before")
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        audit.send("a", "b", 0, handoff_id=f"child-{number}")
        verdict = audit.gate("a", "b", 1, handoff_id=f"gate-{number}")
        assert verdict.state == "accepted", verdict
        if number == 0:
            os._exit(0)
        assert audit.flush(20)
        assert audit.stats()["sent"] == 1, audit.stats()
        sys.exit(0)
    children.append(child)
audit.send("a", "b", 0, handoff_id="after")
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_parent_and_children_of_a_fork_send_each_their_own(server: FakeServer, tmp_path: Path) -> None:
    """The first child ends without running any code at exit; the next process sends what it has left."""
    finish(python(FORK, server.url, tmp_path / "spool"))
    with Client(server.url, server.key, spool=tmp_path / "spool") as client:
        client.send("a", "b", 0, handoff_id="next")
        assert client.flush(20)
        wait_until(lambda: client.stats()["waiting"] == 0)
    children = {f"{kind}-{number}" for kind in ("child", "gate") for number in range(3)}
    assert set(server.handoffs) == {"before", "after", "next"} | children
    assert len([one for one in server.requests if one[1].endswith("/handoffs")]) == 3


def test_a_child_keeps_no_lock_of_its_parent(server: FakeServer, tmp_path: Path) -> None:
    """The parent is killed while its child lives: the next process adopts what the parent has left."""
    code = """
import os, sys, time
from handoffaudit_client import Client
audit = Client(sys.argv[1], "ha_test", spool=sys.argv[2])
audit.send("a", "b", 0, handoff_id="parent")
if os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(20)
    os._exit(0)
print("ready", flush=True)
time.sleep(600)
"""
    process = python(code, NOWHERE, tmp_path / "spool", start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.kill()
    process.wait()
    with Client(NOWHERE, server.key, spool=tmp_path / "spool") as client:
        client.send("a", "b", 0)
        wait_until(lambda: client.stats()["adopted"] == 1)
        client.close(0)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_the_import_loads_little() -> None:
    """The benchmark measures the time of the import."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import handoffaudit_client; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, FOLDER], capture_output=True, text=True, check=True
    )
    slow = {"http.client", "ssl", "socket", "logging", "asyncio", "email", "inspect", "dataclasses", "pathlib"}
    assert slow & set(loaded.stdout.split()) == set()


def test_no_module_is_loaded_once_threads_run(server: FakeServer, tmp_path: Path) -> None:
    """A child that is forked meanwhile would wait forever for the lock of the module."""
    code = """
import sys
from handoffaudit_client import Client
audit, away = Client(sys.argv[1], "ha_test", spool=sys.argv[2]), Client(sys.argv[3], "ha_test", spool=sys.argv[2])
before = set(sys.modules)
for client in (audit, away):
    with client.trace():
        client.send("a", "b", {"password": "x", "raw": b"\\xff"})
        client.tool_result("search", 1)
        client.gate("b", "c", 1, timeout=2)
print(sorted(set(sys.modules) - before))
"""
    server.fail(status=503, retry_after=0)
    assert finish(python(code, server.url, tmp_path / "spool", NOWHERE)).startswith("[]")
