"""Tests of known agents, and of the finding on an unknown target."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from handoffaudit.validation.agents import SKILL_FILE, closest_agents, discover, skill_files
from handoffaudit.validation.layers import History
from handoffaudit.validation.layers.chain import UNKNOWN_TARGET
from handoffaudit.validation.text import show
from handoffaudit.validation.verdict import LayerStatus, Verdict
from tests.elapsed import grows_linearly

from .support import codes, judge, payload, universal

KNOWN = frozenset({"writer", "writer-editor", "researcher", "critic"})
OUTPUT = {
    "parsed_output": {"_output_type": "Signal", "direction": "LONG"},
    "envelope": {"agent_id": "trader", "context": {}},
}
FRONT_MATTER = [
    "name: critic\ndescription: Use when: a draft is there",
    "name: 'critic'  # the one of the team",
    'name: "critic"',
    "name: critic # the one of the team",
    "description: |\n  name: not this\n\nname: critic\ntools:\n- read\n- write",
    '# by hand\n"name": critic',
    "name:\n",
    "license: MIT",
    "",
]


def target_verdict(target: str, known: frozenset[str] | None = KNOWN, **given: Any) -> Verdict:
    return judge(payload(target_agent_id=target), known_agents=known, **given)


def test_names_are_those_of_the_front_matter_or_of_the_folder() -> None:
    registry = discover(
        [
            ("skills/a/SKILL.md", "---\nname: researcher\ndescription: finds\n---\n# Researcher"),
            ("skills/writer/SKILL.md", "# Writer\n\nname: not this"),
            ("skills/critic/SKILL.md", "---\ndescription: judges\n---\n"),
            ("skills/empty/SKILL.md", ""),
            ("skills/windows/SKILL.md", "\ufeff---\r\nname: editor\r\n---\r\n"),
        ]
    )
    assert registry.names == {"researcher", "writer", "critic", "empty", "editor"}
    assert registry.warnings == ()


@pytest.mark.parametrize("front_matter", FRONT_MATTER)
def test_a_name_is_read_as_yaml_reads_it(front_matter: str) -> None:
    try:
        read = yaml.safe_load(front_matter) or {}
    except yaml.YAMLError:
        read = {"name": "critic"}  # `description: Use when: …`, which many skills have
    expected = read.get("name") or "the-folder"
    assert discover([("the-folder/SKILL.md", f"---\n{front_matter}\n---\n")]).names == {expected}


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: critic\n# no end",
        "---\nname: [critic]\n---\n",
        '---\nname: "critic\n---\n',
        "---\nname: {critic\n---\n",
        "---\nname: critic: the second\n---\n",
        "---\nnot a field\n---\n",
        "---\nname: >\n  critic\n---\n",
        "---" + "\n" * 100_000,
        None,
    ],
)
def test_what_cannot_be_read_is_left_out(text: str | None) -> None:
    registry = discover([("skills/critic/SKILL.md", text), ("skills/writer/SKILL.md", "")])
    assert registry.names == {"writer"}
    assert registry.warnings == ("Could not parse critic. Skipping.",)


def test_skills_of_a_folder(tmp_path: Path) -> None:
    for name, text in {"a": "---\nname: researcher\n---\n", "group/b": "", "broken": "---\n"}.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(text)
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "SKILL.md").write_bytes(b"---\nname: caf\xe9\n---\n")
    (tmp_path / "README.md").write_text("---\nname: not a skill\n---\n")
    registry = discover(skill_files(tmp_path))
    assert registry.names == {"researcher", "b"}
    assert registry.warnings == ("Could not parse broken. Skipping.", "Could not parse latin. Skipping.")


def test_an_unknown_target_is_told_the_closest_names() -> None:
    verdict = target_verdict("writter")
    (issue,) = verdict.issues
    assert (issue.code, issue.severity.value, issue.field_path) == (
        "chain.unknown_target",
        "warning",
        "target_agent_id",
    )
    assert issue.message == 'The target "writter" is not in the registry of known agents.'
    assert issue.hint.startswith('Did you mean "writer" or "writer-editor"? Known agents: "writer", "writer-editor", ')
    assert issue.metadata["closest"] == ["writer", "writer-editor"]
    assert verdict.outcome.value == "accepted"


def test_one_that_resembles_none_is_told_what_to_do() -> None:
    (issue,) = target_verdict("qqqqqqqq").issues
    assert issue.hint == (
        f"Known agents: {', '.join(map(show, sorted(KNOWN)))}. "
        "If the target is another agent, add its skill to the registry."
    )
    assert issue.metadata["closest"] == []


def test_of_many_known_agents_the_closest_are_listed_first() -> None:
    known = frozenset({f"agent-{number:02}" for number in range(30)} | {"writer"})
    (issue,) = target_verdict("writter", known=known).issues
    assert issue.metadata["known_agents"] == ["writer", *(f"agent-{number:02}" for number in range(9))]
    assert '"agent-08" (+21 more).' in issue.hint


def test_an_empty_registry_lists_none() -> None:
    (issue,) = target_verdict("writer", known=frozenset()).issues
    assert issue.hint == UNKNOWN_TARGET.hint


@pytest.mark.parametrize("target", ["writer", "orchestrator", "end"])
def test_known_targets(target: str) -> None:
    assert codes(target_verdict(target)) == []


def test_without_a_registry_any_target_is_known() -> None:
    assert codes(target_verdict("writter", known=None)) == []


@pytest.mark.parametrize(
    ("document", "form", "place"),
    [
        (universal(target={"skill": "editor"}), "universal", "handoff.target.skill"),
        ({**OUTPUT, "target_agent_id": "editor"}, "output", "target_agent_id"),
        ({"status": "complete", "artifacts": [], "next": "editor", "summary": "Done."}, "handoff-file", "next"),
    ],
)
def test_every_format_that_names_a_target(document: dict[str, Any], form: str, place: str) -> None:
    verdict = judge(document, form, known_agents=KNOWN)
    assert [issue.field_path for issue in verdict.issues if issue.code == "chain.unknown_target"] == [place]


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (OUTPUT, "output"),
        ({"status": "complete", "artifacts": [], "next": None, "summary": "Done."}, "handoff-file"),
        (
            {"tool": {"name": "Task", "parameters": {"prompt": "Do."}, "result": "Done."}, "sessionId": "s"},
            "delegation",
        ),
    ],
)
def test_formats_that_name_no_target(document: dict[str, Any], form: str) -> None:
    assert "chain.unknown_target" not in codes(judge(document, form, known_agents=KNOWN))


def test_without_a_chain_only_the_target_is_looked_up() -> None:
    verdict = judge({**OUTPUT, "target_agent_id": "critic"}, "output", known_agents=KNOWN)
    (layer,) = [layer for layer in verdict.layers if layer.name == "chain"]
    assert (layer.status, layer.why) == (LayerStatus.PASSED, "the handoff has no chain")
    assert verdict.chain is None
    verdict = judge(OUTPUT, "output")
    (layer,) = [layer for layer in verdict.layers if layer.name == "chain"]
    assert (layer.status, layer.why) == (LayerStatus.SKIPPED, "the handoff has no chain")


def test_other_issues_of_the_chain_stand_beside_it() -> None:
    verdict = target_verdict("writter", history=History(derived=("critic", "researcher")))
    assert codes(verdict) == ["chain.declared_differs", "chain.unknown_target"]


def test_thousands_of_agents_and_a_hostile_name_take_time_in_proportion() -> None:
    def look_up(count: int) -> Callable[[], object]:
        known = frozenset(f"agent-{number:05}-of-the-team" for number in range(count))
        # of the same letters, so that no glance at them rules a name out
        return partial(closest_agents, "-team-the-of-01234-agent", known)

    assert grows_linearly(look_up, 250)


def test_a_pipe_that_is_called_like_a_skill_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / SKILL_FILE)
    (tmp_path / "critic").mkdir()
    (tmp_path / "critic" / SKILL_FILE).write_text("# How to judge")
    found = discover(skill_files(tmp_path))
    assert found.names == {"critic"}
    assert found.warnings == ("Could not parse pipe. Skipping.",)
