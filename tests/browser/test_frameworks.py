"""Browser tests of agents with real frameworks: held by a circular chain, approved by a person, and finished.

The agents run in the environment of the frameworks, whose Python HANDOFFAUDIT_TEST_FRAMEWORKS_PYTHON names.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.product import Product, Sender
from tests.conftest import REQUIRED
from tests.running.conftest import wait_for

PYTHON = os.environ.get("HANDOFFAUDIT_TEST_FRAMEWORKS_PYTHON", "")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not PYTHON and not REQUIRED, reason="HANDOFFAUDIT_TEST_FRAMEWORKS_PYTHON is not set"),
]

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "frameworks" / "programs"
STORY = [
    ("triage", "researcher", "accepted"),
    ("researcher", "writer", "accepted"),
    ("writer", "researcher", "approved"),
]
LAST = "Acme has 60 chairs in stock: order there."

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def sender(product: Product) -> Sender:
    """Return the sender of a tenant with an empty review queue."""
    sender = product.senders["agents"]
    sender.empty_queue()
    return sender


@pytest.fixture
def start(sender: Sender, product: Product, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a program of the frameworks."""
    assert PYTHON, "HANDOFFAUDIT_TEST_SERVICES=required, but HANDOFFAUDIT_TEST_FRAMEWORKS_PYTHON is not set"
    key = sender.api.headers["Authorization"].removeprefix("Bearer ")
    settings = {"HANDOFFAUDIT_URL": product.address, "HANDOFFAUDIT_KEY": key, "HANDOFFAUDIT_SPOOL": str(tmp_path)}
    started: list[subprocess.Popen[str]] = []

    def start_one(name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [PYTHON, PROGRAMS / name],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}", **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def read(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Return the next line of a program."""
    assert process.stdout
    assert process.stderr
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return dict(json.loads(line))


def resume(process: "subprocess.Popen[str]", answer: str) -> dict[str, Any]:
    assert process.stdin
    process.stdin.write(f"{answer}\n")
    process.stdin.flush()
    return read(process)


def approve(open_page: OpenPage, url: str) -> None:
    """Approve a held handoff on its page, as a reviewer."""
    page = open_page("rui")
    page.goto(url)
    expect(page.get_by_text("Held for a person")).to_be_visible()
    expect(page.get_by_text("The stock of Acme is missing").first).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved by rui", exact=True)).to_be_visible()


def routes(sender: Sender, trace: str) -> list[tuple[str, str, str]]:
    """Return the handoffs of a trace in their order: source, target and state."""
    found = sender.api.get("/handoffs", params={"trace": trace}).json()["items"]
    return [(one["source_agent_id"], one["target_agent_id"], one["state"]) for one in reversed(found)]


def find_held(sender: Sender) -> list[dict[str, Any]]:
    return list(sender.api.get("/handoffs", params={"state": "held"}).json()["items"])


def test_a_langgraph_swarm_is_interrupted_and_goes_on_once_a_person_approves(open_page, sender, start):
    swarm = start("swarm.py")
    held = read(swarm)["interrupted"]
    assert (held["source"], held["target"], held["state"]) == ("writer", "researcher", "held")
    again = resume(swarm, "approved")["interrupted"]
    assert again["handoff_id"] == held["handoff_id"], "the answer to an interrupt approves nothing"
    approve(open_page, held["url"])
    done = resume(swarm, "go on")
    assert done["said"] == LAST
    assert (done["stats"]["refused"], done["stats"]["waiting"]) == (0, 0)
    assert routes(sender, sender.get(held["handoff_id"])["trace_id"]) == STORY


def test_an_openai_agents_run_waits_and_goes_on_once_a_person_approves(open_page, sender, start):
    team = start("team.py")
    wait_for(lambda: find_held(sender) or team.poll() is not None)
    assert team.poll() is None, team.communicate()
    (held,) = find_held(sender)
    assert (held["source_agent_id"], held["target_agent_id"]) == ("writer", "researcher")
    approve(open_page, f"{sender.pages}handoffs/{held['id']}/")
    done = read(team)
    assert (done["said"], done["by"]) == (LAST, "researcher")
    assert (done["stats"]["refused"], done["stats"]["waiting"]) == (0, 0)
    assert routes(sender, held["trace_id"]) == STORY
