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
MORE_FRAMEWORKS_PYTHON = os.environ.get("HANDOFFAUDIT_TEST_MORE_FRAMEWORKS_PYTHON", "")

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
ORDERED = "Done: 40 chairs are ordered."

Start = Callable[..., "subprocess.Popen[str]"]


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

    def start_one(name: str, python: str = PYTHON) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [python, PROGRAMS / name],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}", **settings},
            cwd=tmp_path,
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


@pytest.fixture
def held_type(sender: Sender) -> str:
    """Return a handoff type of which a person has to approve each handoff whose chain has two agents."""
    table = sender.api.get("/strictness").json()
    rows = [row for row in table["rows"] if row["handoff_type"] != "purchase"]
    row = {"handoff_type": "purchase", "approval_length": 1}
    saved = sender.api.put("/strictness", json={"base_version": table["version"], "rows": [*rows, row]})
    assert saved.status_code == 200, saved.text
    return "purchase"


def approve(open_page: OpenPage, url: str, text: str = "The stock of Acme is missing") -> None:
    """Approve a held handoff on its page, as a reviewer."""
    page = open_page("rui")
    page.goto(url)
    expect(page.get_by_text("Held for a person")).to_be_visible()
    expect(page.get_by_text(text).first).to_be_visible()
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


@pytest.mark.parametrize("program", ["assistants.py", "servers.py", "nodes.py"])
def test_a_run_ends_for_a_held_handoff_and_resumes_once_a_person_approves(open_page, sender, start, held_type, program):
    run = start(program)
    held = read(run)["interrupted"]
    assert (held["source"], held["target"], held["state"]) == ("triage", "writer", "held")
    again = resume(run, "approved")["interrupted"]
    assert again["handoff_id"] == held["handoff_id"], "a program approves nothing"
    approve(open_page, held["url"], "Order 40 chairs from Acme")
    done = resume(run, "go on")
    assert done["said"] == ORDERED
    assert (done["stats"]["refused"], done["stats"]["waiting"]) == (0, 0)
    stored = sender.get(held["handoff_id"])
    assert stored["handoff_type"] == held_type
    assert routes(sender, stored["trace_id"]) == [
        ("desk", "triage", "accepted"),
        ("triage", "writer", "approved"),
    ]


@pytest.mark.parametrize(("program", "python"), [("session.py", PYTHON), ("crew.py", MORE_FRAMEWORKS_PYTHON)])
def test_a_run_waits_for_a_held_handoff_and_goes_on_once_a_person_approves(
    open_page, sender, start, held_type, program, python
):
    if not python and not REQUIRED:
        pytest.skip("HANDOFFAUDIT_TEST_MORE_FRAMEWORKS_PYTHON is not set")
    run = start(program, python)
    wait_for(lambda: find_held(sender) or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    (held,) = find_held(sender)
    assert (held["source_agent_id"], held["target_agent_id"], held["handoff_type"]) == ("triage", "writer", held_type)
    approve(open_page, f"{sender.pages}handoffs/{held['id']}/", "Order 40 chairs from Acme")
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    done = json.loads(out.splitlines()[-1])
    assert done["said"] == ORDERED
    assert (done["stats"]["refused"], done["stats"]["waiting"]) == (0, 0)
    assert routes(sender, held["trace_id"]) == [("desk", "triage", "accepted"), ("triage", "writer", "approved")]
