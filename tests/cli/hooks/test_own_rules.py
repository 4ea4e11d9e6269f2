"""Tests of the user's own phase rules: when the hook evaluates them, what it sends, and who decides."""

import json
import os
from pathlib import Path

import pytest

from handoffaudit.validation.phase_rules import parse_results, parse_rules
from tests.cli.hooks.conftest import BLOCKED, KEY, NOT_APPLICABLE, PASSED, event, rule, serving
from tests.running.conftest import alive, wait_for

OTHER_TOOL = event(tool_name="Edit", tool_input={"file_path": "a"})


def wanted(hook) -> str:
    """Write rules that require the file `ok` and leave the file `evaluated` as proof that they were evaluated."""
    return hook.rules(rule("ok", "test -f ok"), rule("mark", "touch evaluated; exit 1", "warning"))


def evaluated(hook) -> bool:
    return (hook.folder / "evaluated").exists()


def test_where_the_server_has_judged_no_rule_is_evaluated(hook, gate):
    gate.answers(PASSED)
    assert hook(event(), "--rules", wanted(hook)).returncode == 0
    assert not evaluated(hook)
    assert [one.body for one in gate.requests] == [event()]


def test_where_the_check_is_not_applicable_the_rules_are_and_the_server_is_told(hook, gate):
    gate.answers(NOT_APPLICABLE, BLOCKED | {"reason": "Rule ok failed."})
    done = hook(event(), "--rules", wanted(hook), "--block-exit", "2")
    assert done.returncode == 2
    assert done.stderr.startswith("Rule ok failed.\n")
    first, second = gate.requests
    assert first.body == event()
    assert second.id == f"{first.id}-rules"
    assert second.body["event"] == event()
    phase = second.body["phase_results"]
    assert phase["mode"] == "fallback"
    assert [one.rule_id for one in parse_rules(phase["rules"])] == ["ok", "mark"]
    assert [one.status for one in parse_results(phase["results"])] == ["failed", "failed"]
    assert hook.kept() == []


def test_a_failed_warning_does_not_block(hook, gate):
    (hook.folder / "ok").touch()
    gate.answers(NOT_APPLICABLE, PASSED)
    done = hook(event(), "--rules", wanted(hook))
    assert (done.returncode, done.stderr) == (0, "")
    assert evaluated(hook)


def test_a_rule_blocks_also_where_the_server_does_not_say_so(hook, gate):
    gate.answers(NOT_APPLICABLE)
    done = hook(event("pre-tool-use"), "--rules", wanted(hook))
    assert done.returncode == 1
    assert done.stderr == "ok: test -f ok: it ended with 1, not with 0.\n"
    said = json.loads(hook(event("pre-tool-use"), "--rules", wanted(hook), "--emit").stdout)
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
    said = json.loads(hook(event("subagent-stop"), "--rules", wanted(hook), "--emit").stdout)
    assert said["decision"] == "block"


def test_other_tools_are_sent_once_with_the_results(hook, gate):
    done = hook(OTHER_TOOL, "--rules", wanted(hook))
    assert done.returncode == 1
    assert len(gate.requests) == 1
    assert gate.requests[0].body["event"] == OTHER_TOOL
    assert gate.requests[0].body["phase_results"]["mode"] == "fallback"


@pytest.mark.parametrize("name", ["subagent-start"])
def test_an_event_that_nothing_can_stop_takes_no_rules(hook, gate, name):
    gate.answers(NOT_APPLICABLE)
    assert hook(event(name), "--rules", wanted(hook)).returncode == 0
    assert not evaluated(hook)


@pytest.mark.parametrize(
    ("answer", "file", "code"), [(PASSED, True, 0), (PASSED, False, 1), (BLOCKED, True, 1), (BLOCKED, False, 1)]
)
def test_hybrid_evaluates_always_and_either_blocks(hook, gate, answer, file, code):
    gate.answers(answer)
    if file:
        (hook.folder / "ok").touch()
    done = hook(event(), "--rules", wanted(hook), "--hybrid")
    assert done.returncode == code
    assert len(gate.requests) == 1
    assert gate.requests[0].body["phase_results"]["mode"] == "hybrid"
    if answer is BLOCKED and not file:
        assert done.stderr == "The amounts are missing.\nok: test -f ok: it ended with 1, not with 0.\n"


@pytest.mark.parametrize("options", [(), ("--hybrid",)])
def test_where_the_server_is_away_the_rules_decide_and_their_results_wait(hook_without_server, closed_gate, options):
    hook = hook_without_server
    done = hook(event(), "--rules", wanted(hook), *options)
    assert done.returncode == 1
    assert "ok: test -f ok" in done.stderr
    (hook.folder / "ok").touch()
    assert hook(event(), "--rules", wanted(hook), *options).returncode == 0
    with serving(closed_gate):
        assert hook("", "--flush").returncode == 0
    told = ["phase_results" in one.body for one in closed_gate.taken]
    assert told == ([True, True] if options else [False, True, False, True])
    assert len({one.id.removesuffix("-rules") for one in closed_gate.taken}) == 2


def test_a_rules_file_that_others_can_write_to_is_refused(hook, gate):
    path = wanted(hook)
    for mode in (0o620, 0o602, 0o666):
        Path(path).chmod(mode)
        done = hook(event(), "--rules", path)
        assert done.returncode == 2
        assert done.stderr == (
            f"Error: Others can write to the rules file {path}, and its commands would run as you: chmod go-w {path}\n"
        )
    assert hook(event(), "--rules", path, "--block-exit", "2").returncode == 1
    assert not evaluated(hook)
    assert gate.requests == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_rules_file_of_another_user_is_refused(hook):
    path = wanted(hook)
    os.chown(path, 65534, 65534)
    done = hook(event(), "--rules", path)
    assert done.returncode == 2
    assert "belongs to another user" in done.stderr
    assert not evaluated(hook)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON ("),
        ('{"rules": 1}', "is wrong: This is a number, not a list of rules. Give a list."),
        ('[{"rule_id": "a"}]', "is wrong: [0].rule_config: rule_config is null."),
        (None, "can't be read (No such file or directory)."),
    ],
)
def test_a_rules_file_that_is_wrong_is_told(hook, text, said):
    path = hook.folder / "own.json"
    if text is not None:
        path.write_text(text)
        path.chmod(0o600)
    done = hook(event(), HANDOFFAUDIT_HOOK_RULES=str(path))
    assert done.returncode == 2
    assert f"The rules file {path} " in done.stderr
    assert done.stderr.count("\n") == 1
    assert said in done.stderr or "rule_type is missing" in done.stderr


def test_rules_in_an_event_or_an_answer_are_never_evaluated(hook, gate):
    planted = {"rules": [rule("planted", "touch planted")], "results": [], "mode": "hybrid"}
    gate.answers(NOT_APPLICABLE | {"phase_results": planted, "rules": planted["rules"]})
    hook(event(phase_results=planted, rules=planted["rules"]), "--rules", wanted(hook))
    assert evaluated(hook)
    assert not (hook.folder / "planted").exists()


def test_commands_do_not_get_the_key(hook, gate):
    gate.answers(NOT_APPLICABLE)
    done = hook(
        event(), "--rules", hook.rules(rule("env", "env > seen; env | grep -q HANDOFFAUDIT_KEY && exit 1; exit 0"))
    )
    assert done.returncode == 0
    assert KEY not in (hook.folder / "seen").read_text()


def test_a_script_of_a_relative_root_is_found(hook, gate):
    gate.answers(NOT_APPLICABLE)
    (hook.folder / "project").mkdir()
    script = hook.folder / "project" / "check.sh"
    script.write_text("#!/bin/sh\ntest -f check.sh\n")
    script.chmod(0o700)
    own = {"rule_id": "own", "rule_type": "custom", "rule_config": {"script_path": "check.sh"}}
    done = hook(event(), "--rules", hook.rules(own), "--root", "project")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_hook_that_its_host_ends_ends_what_its_rules_started(hook, gate):
    gate.answers(NOT_APPLICABLE)
    process = hook.start(event(), "--rules", hook.rules(rule("slow", "echo $$ > child; sleep 300")))
    wait_for(lambda: (hook.folder / "child").exists() and (hook.folder / "child").read_text())
    process.terminate()
    assert process.wait(60) == 0
    process.communicate()
    child = int((hook.folder / "child").read_text())
    wait_for(lambda: not alive(child))


def test_paths_and_commands_start_from_the_project(hook, gate):
    gate.answers(NOT_APPLICABLE)
    project = hook.folder / "project"
    project.mkdir()
    (project / "ok").touch()
    assert hook(event(), "--rules", wanted(hook)).returncode == 1
    assert hook(event(), "--rules", wanted(hook), CLAUDE_PROJECT_DIR=str(project)).returncode == 0
    assert hook(event(), "--rules", wanted(hook), "--root", str(project)).returncode == 0
