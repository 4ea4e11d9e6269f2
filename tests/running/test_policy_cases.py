"""Tests of `handoffaudit policy test`: stored cases, cases of a file without a database, and a server."""

import json
from pathlib import Path

import httpx
import pytest

from tests.handoffs.support import circular, payload
from tests.running.conftest import Up, run

STRICT = "format: 1\npolicies:\n  strictness:\n    - handoff_type: '*'\n      token_budget: 10\n"


@pytest.fixture(scope="module")
def kept(running: Up, client: httpx.Client) -> list[str]:
    """Keep an accepted handoff and a loop as cases, and return their ids."""
    ids = []
    for document, expected in ((payload(handoff_id="good"), "accepted"), (circular(handoff_id="loop"), "rejected")):
        sent = client.post("/api/v1/handoffs", json=document | {"tenant_id": "default"})
        assert sent.status_code in (200, 202, 422), sent.text
        case = {"handoff": document["handoff_id"], "expected": expected}
        made = client.post("/api/v1/policies/cases", json=case)
        assert made.status_code == 201, made.text
        ids.append(made.json()["id"])
    return ids


@pytest.mark.parametrize("with_server", [False, True])
def test_a_draft_breaks_a_case_by_name(
    running: Up, client: httpx.Client, kept: list[str], tmp_path: Path, with_server: bool
) -> None:
    where = ["--url", running.address, "--key", client.headers["Authorization"].split()[1]] if with_server else []
    fine = run("policy", "test", "-", *where, folder=running.folder, text="format: 1\npolicies: {}")
    assert (fine.returncode, fine.stdout) == (0, ""), fine.stderr
    assert fine.stderr.startswith("2 cases: 2 passed, 0 failed")
    broken = run("policy", "test", "-", *where, folder=running.folder, text=STRICT)
    assert broken.returncode == 1
    assert broken.stdout.startswith(
        "good: failed\n  The handoff is rejected, and should be accepted. The policy for any other"
    )
    assert "tokens.over_budget (layer tokens)" in broken.stdout
    invalid = run("policy", "test", "-", *where, folder=running.folder, text=STRICT.replace("10", "x"))
    assert (invalid.returncode, invalid.stdout) == (2, "")
    assert invalid.stderr.startswith("-, line 5: strictness")
    cases = tmp_path / "cases.yaml"
    cases.write_text(run("policy", "export", "--cases", *where, folder=running.folder).stdout)
    beside = run("policy", "test", "-", "--cases", str(cases), *where, "--json", folder=running.folder, text=STRICT)
    assert beside.returncode == 1
    assert [one["status"] for one in json.loads(beside.stdout)["items"]] == ["failed", "passed"]
    cases.write_text(cases.read_text().replace("expected: rejected", "expected: fine"))
    wrong = run("policy", "test", "-", "--cases", str(cases), *where, folder=running.folder, text=STRICT)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"{cases}, line " in wrong.stderr
    assert "expected" in wrong.stderr


def test_cases_of_a_file_need_no_data_folder(running: Up, kept: list[str], tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    cases.write_text(run("policy", "export", "--cases", folder=running.folder).stdout)
    nothing = tmp_path / "nothing"
    done = run("policy", "test", "-", "--cases", str(cases), folder=nothing, text="format: 1\npolicies: {}")
    assert done.returncode == 0, done.stderr
    assert not nothing.exists()
    for ignored in ("--tenant", "--data"):
        refused = run("policy", "test", "-", "--cases", str(cases), ignored, "acme", folder=nothing, text="format: 1")
        assert refused.returncode == 2
        assert f"{ignored} has no effect with --cases" in refused.stderr
        assert "leave out --cases" in refused.stderr
    cases.write_text("format: 1\ncases:\n  - 5\n")
    wrong = run("policy", "test", "-", "--cases", str(cases), folder=nothing, text="format: 1\npolicies: {}")
    said = "A case is an object with the fields that `handoffaudit policy export --cases` writes."
    assert f"{cases}, line 3: {said}" in wrong.stderr
    cases.write_text("format: 1\ncases: []\n")
    none = run("policy", "test", "-", "--cases", str(cases), folder=nothing, text="format: 1\npolicies: {}")
    assert none.returncode == 2
    assert "There is no case" in none.stderr
