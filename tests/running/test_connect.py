"""Tests that the lines of the page Connect work as they are pasted, against a running server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from handoffaudit.dashboard.connect_ways import fill_example, find_way
from tests.running.conftest import Up, clean_environment, run, wait_for

ROOT = Path(__file__).parents[2]
SUMMARY = "Three suppliers deliver within a week."
Paste = Callable[..., str]


@pytest.fixture(scope="module")
def secret(running: Up) -> str:
    made = run("key", "create", "connect", "--scopes", "ingest,observe,read", folder=running.folder)
    return made.stdout.strip()


@pytest.fixture
def paste(running: Up, secret: str, tmp_path: Path) -> Paste:
    """Return a function that pastes a way's lines into a shell, runs a command there, and returns its output."""

    def paste(way: str, command: str, text: str = "") -> str:
        setup = find_way(way).fill(running.address, secret)[0].text
        lines = [line for line in setup.splitlines() if line.startswith("export ")]
        assert len(lines) == 2
        env = clean_environment(
            HOME=str(tmp_path),
            PYTHONPATH=str(ROOT / "client"),
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        )
        script = "\n".join((*lines, command))
        done = subprocess.run(
            ["bash", "-ec", script], check=False, input=text, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return paste


def newest(running: Up, secret: str, **having: str) -> dict[str, Any]:
    """Return the newest handoff with these values, once it is judged."""
    headers = {"Authorization": f"Bearer {secret}"}

    def items() -> list[dict[str, Any]]:
        found = httpx.get(f"{running.address}/api/v1/handoffs", params=having, headers=headers, timeout=60).json()[
            "items"
        ]
        return [one for one in found if one["state"] not in ("received", "validating")]

    wait_for(items, 60)
    shown = httpx.get(f"{running.address}/api/v1/handoffs/{items()[0]['id']}", headers=headers, timeout=60)
    return dict(shown.json())


@pytest.mark.parametrize(("file", "state"), [("connect/curl.sh", "accepted"), ("connect/held.sh", "held")])
def test_the_command_answers_with_the_verdict(file: str, state: str, running: Up, secret: str) -> None:
    command = fill_example(file, running.address, secret)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    answer = json.loads(done.stdout)
    assert answer["state"] == state
    shown = newest(running, secret, state=state)
    assert (shown["id"], shown["document"]["data"]) == (answer["id"], {"summary": SUMMARY})


def test_the_lines_for_python_ask_the_gate(running: Up, secret: str, paste: Paste, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(find_way("python").fill(running.address, secret)[1].text)
    assert paste("python", f"python {tmp_path}/agent.py") == "The writer may start.\n"
    shown = newest(running, secret, source="researcher")
    assert (shown["state"], shown["document"]["data"]) == ("accepted", {"summary": SUMMARY})
    assert shown["trace_id"]


def test_the_hooks_for_claude_code_send_a_task(running: Up, secret: str, paste: Paste) -> None:
    hooks = json.loads(find_way("claude-code").fill(running.address, secret)[1].text)["hooks"]
    [command] = [one["hooks"][0]["command"] for one in hooks["PreToolUse"]]
    event = (ROOT / "docs" / "examples" / "hooks" / "pre-tool-use.json").read_text()
    paste("claude-code", command, event)
    shown = newest(running, secret, target="bookkeeper")
    assert (shown["source_agent_id"], shown["state"]) == ("main", "accepted")


def test_the_trial_on_the_page_on_claude_code_sends_a_task(running: Up, secret: str, paste: Paste) -> None:
    page = (ROOT / "docs" / "connect-claude-code.md").read_text()
    [command] = [
        block for block in re.findall(r"^```bash\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "echo" in block
    ]
    assert paste("claude-code", command) == ""
    shown = newest(running, secret, trace="try-1")
    assert (shown["target_agent_id"], shown["state"]) == ("bookkeeper", "accepted")


@pytest.mark.nightly
def test_the_lines_for_opentelemetry_send_a_trace_until_its_handoff_is_judged(
    running: Up, secret: str, tmp_path: Path
) -> None:
    """The exporter is the real one, and is configured by the usual variables alone."""
    setup, program = (snippet.text for snippet in find_way("opentelemetry").fill(running.address, secret))
    (tmp_path / "agent.py").write_text(program)
    exports = [line for line in setup.splitlines() if line.startswith("export ")]
    assert len(exports) == 3
    script = "\n".join((*exports, f"{sys.executable} {tmp_path}/agent.py"))
    env = clean_environment(HOME=str(tmp_path), PATH=os.environ["PATH"])
    done = subprocess.run(["bash", "-ec", script], check=False, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shown = newest(running, secret, target="reviewer")
    assert (shown["source_agent_id"], shown["target_agent_id"]) == ("researcher", "reviewer")
    assert shown["document"]["data"] == {"summary": SUMMARY}
    assert shown["telemetry"]["text"] == "Read from a trace."
    assert shown["verdict"]["outcome"] == shown["state"]
    assert shown["sent_at"]
