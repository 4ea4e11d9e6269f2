"""Tests that the hook accepts the documented settings and rules."""

import json
import shlex

from handoffaudit.api.app import api
from handoffaudit.cli.hook_server import PATH
from handoffaudit.validation.phase_rules import RuleType, parse_rules
from tests.cli.hooks.conftest import BLOCKED, EXAMPLES, event

EVENTS = {
    "PreToolUse": "pre-tool-use",
    "PostToolUse": "post-tool-use",
    "SubagentStart": "subagent-start",
    "SubagentStop": "subagent-stop",
}


def hooks(name):
    """Return the event, the matcher and the hook's settings."""
    settings = json.loads((EXAMPLES / name).read_text())["hooks"]
    return [
        (event, one.get("matcher", ""), hook)
        for event, all_of in settings.items()
        for one in all_of
        for hook in one["hooks"]
    ]


def test_the_commands_for_claude_code_are_taken_and_stop_what_is_blocked(hook, gate):
    gate.answers(BLOCKED)
    given = hooks("settings-command.json")
    assert {name for name, _, _ in given} == set(EVENTS)
    for name, matcher, settings in given:
        program, command, *options = shlex.split(settings["command"])
        assert (program, command) == ("handoffaudit", "hook")
        plain = event(EVENTS[name])
        assert plain.get("tool_name", "") in matcher.split("|")
        done = hook(plain, *options)
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        assert said.get("decision") == "block" or said["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert len(gate.taken) == 4


def test_the_settings_with_tool_results_add_one_hook():
    given = hooks("settings-tool-results.json")
    (added,) = [one for one in given if one not in hooks("settings-command.json")]
    name, matcher, settings = added
    assert (name, matcher, settings["async"]) == ("PostToolUse", "*", True)
    assert shlex.split(settings["command"]) == ["handoffaudit", "hook", "--tool-results"]
    assert len(given) == 5


def test_the_addresses_for_claude_code_are_the_gates():
    paths = api.get_openapi_schema(path_prefix="/api/v1/")["paths"]
    given = hooks("settings-http.json")
    assert {name for name, _, _ in given} == set(EVENTS)
    for _, _, settings in given:
        assert settings["url"] == f"https://audit.example.com{PATH}"
        assert "post" in paths[PATH]
        assert settings["headers"]["Authorization"] == "Bearer $HANDOFFAUDIT_KEY"
        assert settings["allowedEnvVars"] == ["HANDOFFAUDIT_KEY"]


def test_the_rules_are_one_of_each_type():
    rules = parse_rules(json.loads((EXAMPLES / "rules.json").read_text())["rules"])
    assert [one.rule_type for one in rules] == list(RuleType)
