"""Tests of `handoffaudit hook --tool-results`: only results are sent, and nothing is ever blocked."""

import json
from datetime import UTC, datetime

import pytest

from tests.cli.hooks.conftest import BLOCKED, EXAMPLES, NOT_APPLICABLE, event, rule

OPTION = "--tool-results"
STORED = NOT_APPLICABLE | {"tool_result": "stored"}


def test_a_result_is_sent_as_it_is_with_its_time(hook, gate):
    gate.answers(STORED)
    started = datetime.now(UTC)
    text = (EXAMPLES / "tool-result.json").read_text()
    done = hook(text, OPTION)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (sent,) = gate.taken
    assert sent.body["event"] == json.loads(text)
    assert abs((datetime.fromisoformat(sent.body["sent_at"]) - started).total_seconds()) < 20
    assert sent.path.endswith("?timeout=0")
    assert hook.kept() == []


@pytest.mark.parametrize("name", ["pre-tool-use", "post-tool-use", "subagent-start", "subagent-stop"])
def test_other_events_are_left_to_the_other_hooks(hook, gate, name):
    done = hook(event(name), OPTION, HANDOFFAUDIT_URL="", HANDOFFAUDIT_KEY="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert gate.requests == []


def test_a_result_is_never_blocked_and_runs_no_rules(hook, gate):
    gate.answers(BLOCKED | {"tool_result": "stored"})
    path = hook.rules(rule("marker", "touch ran"))
    done = hook(event("tool-result"), OPTION, "--emit", HANDOFFAUDIT_HOOK_RULES=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (hook.folder / "ran").exists()


def test_a_result_waits_while_the_server_is_away(hook_without_server):
    done = hook_without_server(event("tool-result"), OPTION)
    assert (done.returncode, done.stdout) == (0, "")
    assert "it is kept in" in done.stderr
    (kept,) = hook_without_server.kept()
    assert set(json.loads(kept["body"])) == {"event", "sent_at"}


def test_a_key_that_captures_nothing_is_reported(hook, gate):
    gate.answers(NOT_APPLICABLE)
    done = hook(event("tool-result"), OPTION)
    assert done.returncode == 0
    assert "The key needs the scopes ingest and observe." in done.stderr


def test_the_reason_of_the_server_is_shown(hook, gate):
    gate.answers(NOT_APPLICABLE | {"reason": "The event was not checked: The body has 1,200,150 bytes."})
    assert "The body has 1,200,150 bytes." in hook(event("tool-result"), OPTION).stderr


def test_results_leave_room_for_delegations_in_the_spool(hook_without_server):
    result = json.dumps(event("tool-result") | {"tool_response": "x" * 400_000})
    done = [hook_without_server(result, OPTION, "--spool-mib", "1") for _ in range(2)]
    assert "can't be kept" in done[1].stderr
    hook_without_server(event("pre-tool-use"), "--spool-mib", "1")
    kept = [json.loads(one["body"]) for one in hook_without_server.kept()]
    assert ["sent_at" in one for one in kept] == [True, False]


@pytest.mark.parametrize("options", [(OPTION, "--nothing"), (OPTION, "--url", "ftp://x")])
def test_a_wrong_call_never_blocks(hook, gate, options):
    # For Claude Code, exit code 2 of a hook is a message to the agent.
    done = hook(event("tool-result"), *options)
    assert done.returncode == 1
    assert done.stderr
    assert gate.requests == []
