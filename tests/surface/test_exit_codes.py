"""Snapshots of exit codes, from real calls of the commands in this process."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings

from handoffaudit.accounts.models import Tenant
from handoffaudit.cli.main import main
from tests.handoffs.support import circular, payload
from tests.surface.snapshots import FOLDER, check

DELEGATION = {
    "session_id": "s",
    "hook_event_name": "PostToolUse",
    "tool_name": "Agent",
    "tool_input": {"prompt": "List them."},
    "tool_response": {"status": "completed", "content": [{"type": "text", "text": "None."}]},
}
# What is called, and what is put into its standard input. Files are made by the fixture `files`.
CALLS = {
    "--version": "",
    "--help": "",
    "no arguments": "",
    "nope": "",
    "validate": "",
    "validate good.json": "",
    "validate rejected.json": "",
    "validate broken.json": "",
    "validate good.json missing.json": "",
    "validate rejected.json missing.json": "",
    "validate good.json --no-such-flag": "",
    "repair good.json": "",
    "repair rejected.json": "",
    "repair missing.json": "",
    "eval missing.json": "",
    "hook": json.dumps({"hook_event_name": "PostToolUse", "tool_name": "Bash"}),
    "hook --url http://127.0.0.1:9 --key k --spool spool": json.dumps(DELEGATION),
    "hook --flush --url http://127.0.0.1:9 --key k --spool spool": "",
    "hook --hybrid": "",
    "hook --hybrid --block-exit 2": "",
    "hook --no-such-flag": "",
    "hook --block-exit 2 --no-such-flag": "",
    "report-file --path missing.json --agent planner --phase plan --url http://127.0.0.1:9 --key k --spool spool": "",
    "report-file --path report.json --agent planner --phase plan --url http://127.0.0.1:9 --key k --spool spool": "",
    "report-file --agent planner": "",
    "watch missing-folder --url http://127.0.0.1:9 --key k": "",
    "import good.json --tenant acme": "",
    "import broken.json --tenant acme": "",
    "import missing.json --tenant acme": "",
    "import good.json --url not-an-address --key k": "",
    "import-log report.json --tenant acme": "",
    "import-log missing.log --tenant acme": "",
    "key create crew --tenant acme": "",
    "key create crew --tenant nobody": "",
    "key list --tenant acme": "",
    "key revoke 999999 --tenant acme": "",
    "export --tenant acme": "",
    "export --tenant nobody": "",
    "policy export --tenant acme": "",
    "policy diff - --tenant acme": "format: 1\npolicies: {roles: []}",
    "policy apply - --dry-run --tenant acme": "format: 1\npolicies: {roles: [{agent: a, role: worker}]}",
    "policy diff missing.yaml": "",
    "policy test - --tenant acme": "format: 1\npolicies: {roles: []}",
    "policy test - --cases missing.yaml": "format: 1\npolicies: {}",
    "recount": "",
    "recount --check": "",
    "verify-log": "",
    "backup missing-folder/file.sqlite3": "",
    "manage version": "",
    "manage nope": "",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> Iterator[None]:
    (tmp_path / "good.json").write_text(json.dumps(payload()))
    (tmp_path / "rejected.json").write_text(json.dumps(circular()))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "report.json").write_text(json.dumps({"status": "complete", "artifacts": [], "summary": "Done."}))
    monkeypatch.chdir(tmp_path)
    # The commands refuse a folder without this file; the rows are in the tests' own database.
    database = settings.DATA_FOLDER / "handoffaudit.sqlite3"
    database.touch()
    yield
    database.unlink()


@pytest.fixture
def call(files: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], int]:
    def call(line: str, given: str) -> int:
        arguments = [] if line == "no arguments" else line.split()
        monkeypatch.setattr(sys, "argv", ["handoffaudit", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))

        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return call


@pytest.mark.django_db
def test_exit_codes(call: Callable[[str, str], int]) -> None:
    check("exit-codes", {line: call(line, given) for line, given in CALLS.items()})


def test_the_snapshot_has_each_code() -> None:
    kept = json.loads((FOLDER / "exit-codes.json").read_text())
    assert set(kept.values()) == {0, 1, 2}
