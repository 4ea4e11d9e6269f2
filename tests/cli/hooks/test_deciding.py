"""Tests of the events that the hook sends to the server, and of the hook's exit codes."""

import json

import pytest

from handoffaudit.cli.hook import DELEGATION_TOOLS
from handoffaudit.validation.formats import delegation
from tests.cli.hooks.conftest import BLOCKED, EXAMPLES, KEY, PASSED, event

SENT = [
    "pre-tool-use",
    "post-tool-use",
    "post-tool-use-inside-a-subagent",
    "subagent-start",
    "subagent-stop",
]


@pytest.mark.parametrize("name", SENT)
def test_an_event_of_a_delegation_is_sent_as_it_came(hook, gate, name):
    text = (EXAMPLES / f"{name}.json").read_text()
    done = hook(text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [one.body for one in gate.requests] == [json.loads(text)]
    assert gate.requests[0].path == "/api/v1/hooks/post-tool-use?timeout=65"
    assert gate.requests[0].authorization == f"Bearer {KEY}"
    assert hook.kept() == []


def test_the_spelling_of_other_hosts_is_sent_too(hook, gate):
    hook((EXAMPLES.parent / "delegation.json").read_text())
    assert len(gate.taken) == 1


def test_each_tool_that_delegates_for_the_server_delegates_for_the_hook():
    assert set(delegation.DELEGATION_TOOLS) == DELEGATION_TOOLS


@pytest.mark.parametrize(
    "other",
    [
        event(tool_name="Bash", tool_input={"command": "ls"}),
        event("pre-tool-use", tool_name="Read"),
        event(hook_event_name="Stop"),
        event(hook_event_name="SomethingNew"),
        event(hook_event_name=None),
        {},
    ],
    ids=["other tool", "other tool before", "stop", "unknown", "null", "empty"],
)
def test_other_events_end_at_once_without_a_call_or_a_key(hook, gate, other):
    done = hook(other, HANDOFFAUDIT_KEY="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert gate.requests == []


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--block-exit", "2"), 2)])
def test_a_blocked_event_ends_with_its_code_and_the_reason_on_standard_error(hook, gate, options, code):
    gate.answers(BLOCKED)
    done = hook(event(), *options)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "The amounts are missing.\n")
    assert hook.kept() == []


@pytest.mark.parametrize("status", ["PASSED", "UNKNOWN", "NOT_APPLICABLE"])
def test_what_is_not_blocked_is_allowed(hook, gate, status):
    gate.answers(PASSED | {"status": status})
    assert hook(event(), "--block-exit", "2").returncode == 0


def test_an_agent_that_was_sent_back_once_is_never_blocked_again(hook, gate):
    gate.answers(BLOCKED | {"decision": "block"})
    done = hook(event("subagent-stop", stop_hook_active=True), "--block-exit", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert hook(event("subagent-stop", stop_hook_active=True), "--emit").stdout == ""


def test_a_reason_can_do_nothing_to_a_terminal(hook, gate):
    gate.answers(BLOCKED | {"reason": "red: \x1b[31m\nnext" + "x" * 20_000})
    done = hook(event())
    assert done.stderr.startswith("red:  [31m\nnext")
    assert len(done.stderr) == 10_001


def test_emit_prints_the_servers_words_and_ends_with_0(hook, gate):
    words = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}
    gate.answers(BLOCKED | {"decision": "block"})
    done = hook(event("post-tool-use"), "--emit")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"decision": "block", "reason": BLOCKED["reason"]}
    gate.answers(PASSED | words)
    assert json.loads(hook(event("pre-tool-use"), "--emit").stdout) == words
    gate.answers(PASSED)
    assert hook(event("pre-tool-use"), "--emit").stdout == ""


@pytest.mark.parametrize("permission", ["allow", "defer", ["deny"], None])
def test_emit_never_passes_on_what_would_open_a_way(hook, gate, permission):
    own = {"hookEventName": "PreToolUse", "permissionDecision": permission, "updatedInput": {"prompt": "other"}}
    gate.answers(PASSED | {"hookSpecificOutput": own})
    assert hook(event("pre-tool-use"), "--emit").stdout == ""
    gate.answers(PASSED | {"hookSpecificOutput": own | {"permissionDecision": "ask"}})
    said = json.loads(hook(event("pre-tool-use"), "--emit").stdout)["hookSpecificOutput"]
    assert said == {"hookEventName": "PreToolUse", "permissionDecision": "ask"}


@pytest.mark.parametrize("status", [403, 404, 422, 500])
def test_what_a_server_says_is_no_command_for_the_terminal(hook, gate, status):
    gate.answers({"title": "No", "detail": "red: \x1b[31m\u202e"}, status=status)
    told = hook(event()).stderr
    assert "No: red: [31m" in told
    assert told.replace("\n", "").isprintable()


def test_emit_denies_where_the_server_blocks_without_claude_codes_words(hook, gate):
    gate.answers(BLOCKED)
    said = json.loads(hook(event("pre-tool-use"), "--emit").stdout)["hookSpecificOutput"]
    assert (said["permissionDecision"], said["permissionDecisionReason"]) == ("deny", BLOCKED["reason"])


BROKEN = {
    "": "there is nothing on standard input",
    "  \n": "there is nothing on standard input",
    "{": "it is not JSON (",
    "[1]": "it is not a JSON object",
    "[" * 100_000: "it is not JSON (",
    '"' + "x" * (8 * 1024 * 1024) + '"': "it is longer than 8 MiB",
}


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_event_is_one_line_and_stops_no_agent(hook, gate, text):
    done = hook(text, "--block-exit", "2")
    assert done.returncode == 0
    assert done.stderr.startswith(f"Warning: The event can't be read, and was not judged: {BROKEN[text]}")
    assert done.stderr.count("\n") == 1
    assert gate.requests == []


WRONG = {
    "--timeout 0": "Invalid value for '--timeout': 0.0 is not in the range 1<=x<=600. See handoffaudit hook --help.",
    "--nope": "No such option '--nope'. See handoffaudit hook --help.",
    "--url x": "'x' is not the address of a server: write it like https://audit.example.com.",
    "--url http://u:p@h": "The address has a user name or a password, which the client would not use: leave it out.",
    "--hybrid": "--hybrid needs rules: name their file with --rules or HANDOFFAUDIT_HOOK_RULES.",
    "--any-key": "--any-key needs --flush.",
}


@pytest.mark.parametrize(
    ("more", "code"), [([], 2), (["--block-exit", "2"], 1), (["--block-exit=2"], 1), (["--emit"], 1)]
)
@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_call_never_ends_with_the_code_of_a_blocked_event(hook, line, more, code):
    done = hook(event(), *line.split(), *more)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"Error: {WRONG[line]}\n")


def test_a_key_is_needed_and_never_shown(hook):
    missing = hook(event(), HANDOFFAUDIT_KEY="")
    assert missing.returncode == 2
    assert "HANDOFFAUDIT_KEY" in missing.stderr
    for strange in ("ha_secret\nX-Other: 1", "ha_secret ä"):
        done = hook(event(), HANDOFFAUDIT_KEY=strange)
        assert done.returncode == 2
        assert "secret" not in done.stdout + done.stderr
