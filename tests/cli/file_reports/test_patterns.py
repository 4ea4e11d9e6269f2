"""Tests of the expected paths of handoff files, and of the agents that the paths name."""

import pytest

from handoffaudit.cli.folder_follower import BadPattern, Pattern, owner_of


@pytest.mark.parametrize(
    ("pattern", "path", "names"),
    [
        ("**/handoff.json", "handoff.json", {}),
        ("**/handoff.json", "a/b/handoff.json", {}),
        ("**/handoff.json", "a/handoff.json.tmp", None),
        ("{phase}/{agent}/handoff.json", "plan/planner/handoff.json", {"phase": "plan", "agent": "planner"}),
        ("{phase}/{agent}/handoff.json", "plan/handoff.json", None),
        ("{phase}/{agent}/handoff.json", "x/plan/planner/handoff.json", None),
        ("runs/{run}/**/{agent}.json", "runs/7/a/b/coder.json", {"run": "7", "agent": "coder"}),
        ("{agent}-{agent}.json", "a-a.json", {"agent": "a"}),
        ("{agent}-{agent}.json", "a-b.json", None),
        ("*/hand*.json", "x/handoff.json", {}),
        ("*/hand*.json", "x/y/handoff.json", None),
        ("a.b/(c)/handoff.json", "a.b/(c)/handoff.json", {}),
        ("a.b/(c)/handoff.json", "axb/(c)/handoff.json", None),
    ],
)
def test_what_fits(pattern: str, path: str, names: dict[str, str] | None) -> None:
    assert Pattern.of(pattern).names(path) == names


@pytest.mark.parametrize("pattern", ["", "/abs/handoff.json", "../x", "a/", "{who}/x", "{/x", "a}b", "{}/x"])
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    with pytest.raises(BadPattern, match=r"write it like|use \{run\}"):
        Pattern.of(pattern)


@pytest.mark.parametrize(
    ("path", "names", "said"),
    [
        ("plan/planner/handoff.json", {}, ("run-1", "plan", "planner")),
        ("planner/handoff.json", {}, ("run-1", "planner", "planner")),
        ("handoff.json", {}, ("run-1", "run-1", "run-1")),
        ("7/x/handoff.json", {"run": "7", "agent": "coder"}, ("7", "7", "coder")),
    ],
)
def test_whose_a_file_is(path: str, names: dict[str, str], said: tuple[str, ...]) -> None:
    found = owner_of(path, names, "run-1")
    assert (found["run"], found["phase"], found["agent"]) == said
