"""`handoffaudit demo`: real agents of Pydantic AI hand over work, a person decides, and nothing is left."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from handoffaudit.cli import demo
from tests.conftest import REQUIRED
from tests.running.conftest import PRODUCT, clean_environment, descendants, free_port, run, wait_for

PYTHON = os.environ.get("HANDOFFAUDIT_TEST_FRAMEWORKS_PYTHON", "")
CLIENT = str(Path(__file__).parents[2] / "client")
needs_framework = pytest.mark.skipif(
    not PYTHON and not REQUIRED, reason="HANDOFFAUDIT_TEST_FRAMEWORKS_PYTHON is not set"
)

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Yield a function that starts the demonstration; its temporary folder is below `tmp_path`."""
    started: list[subprocess.Popen[str]] = []

    def start_one(*arguments: str, **env: str) -> "subprocess.Popen[str]":
        command = [*PRODUCT, "demo", "--port", str(free_port()), "--pace", "0", *arguments]
        with (tmp_path / "out").open("w") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env=clean_environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1", PYTHONPATH=CLIENT, **env),
            )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.terminate()
        process.wait(60)


@needs_framework
def test_the_agents_wait_for_a_person_and_finish(start: Start, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    # A database of another server must not be touched.
    process = start("--once", "--python", PYTHON, "--keep", str(kept), DATABASE_URL="postgresql://127.0.0.1:1/nobody")
    wait_for(lambda: "Your turn" in printed(tmp_path) or process.poll() is not None)
    shown = printed(tmp_path)
    assert re.findall(r"(\w+ → \w+) +(\w+)", shown) == [
        ("planner → researcher", "accepted"),
        ("researcher → writer", "accepted"),
        ("writer → reviewer", "accepted"),
        ("planner → researcher", "accepted"),
        ("researcher → writer", "rejected"),
        ("researcher → writer", "accepted"),
        ("planner → writer", "accepted"),
        ("writer → reviewer", "accepted"),
        ("reviewer → writer", "accepted"),
        ("writer → reviewer", "accepted"),
        ("reviewer → writer", "accepted"),
        ("writer → reviewer", "rejected"),
        ("planner → researcher", "accepted"),
        ("researcher → writer", "accepted"),
        ("writer → researcher", "held"),
    ]
    assert 'the number "89.50", which is not in tool_results[read_prices' in shown
    key = run("key", "create", "tests", "--scopes", "read,review", folder=kept).stdout.strip()
    page = httpx.URL(re.findall(r"decline it on (\S+)", shown)[0])
    address = (
        f"{page.scheme}://{page.netloc.decode()}/api/v1/handoffs/{page.path.rstrip('/').rpartition('/')[2]}/review"
    )
    answer = httpx.post(address, json={"decision": "approve"}, headers={"Authorization": f"Bearer {key}"}, timeout=60)
    assert answer.status_code == 200, answer.text
    assert process.wait(60) == 0
    assert re.search(r"writer → researcher +approved\n.*The crew has finished\.", printed(tmp_path), re.DOTALL)


@pytest.mark.nightly
@needs_framework
def test_a_signal_ends_it_and_removes_its_data(start: Start, tmp_path: Path) -> None:
    process = start("--python", PYTHON)
    wait_for(lambda: "Your turn" in printed(tmp_path) or process.poll() is not None)
    assert list(tmp_path.glob("handoffaudit-demo-*"))
    below = descendants(process.pid)
    process.terminate()
    assert process.wait(60) == 0
    assert not list(tmp_path.glob("handoffaudit-demo-*"))
    # No process removes the data while another still uses it.
    assert "Unrecoverable error" not in printed(tmp_path)
    assert below
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 20)


def test_settings_of_another_server_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        *("DATABASE_REPLICA_URL", "HANDOFFAUDIT_CHECKPOINTS", "HANDOFFAUDIT_ALLOWED_HOSTS", "HANDOFFAUDIT_SEAL_KEY"),
        *("HANDOFFAUDIT_EMAIL_URL", "HANDOFFAUDIT_OIDC_ISSUER", "HANDOFFAUDIT_PASSWORD_SIGN_IN"),
        "HANDOFFAUDIT_ADMIN_SECOND_FACTOR",
    )
    for name in (*names, "HANDOFFAUDIT_DATA"):
        monkeypatch.setenv(name, "of another server")
    seen: dict[str, str] = {}
    monkeypatch.setattr(demo, "check_python", lambda _: None)
    monkeypatch.setattr(demo.up, "serve", lambda *_: seen.update(os.environ))
    demo.command.main(["--once"], standalone_mode=False)
    assert seen.keys().isdisjoint(names)
    assert seen["HANDOFFAUDIT_DATA"] != "of another server"


def test_without_the_framework_it_says_what_to_install(start: Start, tmp_path: Path) -> None:
    assert start("--python", "/usr/bin/false").wait(60) == 2
    assert "/usr/bin/false lacks pydantic-ai-slim or handoffaudit-client. Install the extra demo" in printed(tmp_path)


def printed(folder: Path) -> str:
    return (folder / "out").read_text()
