"""Tests of `handoffaudit validate --skills`: targets looked up among the skills of a folder."""

import json
from pathlib import Path

from tests.cli.test_main import run
from tests.validation.support import payload


def skill(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text)


def test_a_target_is_looked_up_among_the_skills(tmp_path):
    skill(tmp_path / "skills", "write", "---\nname: writer\ndescription: Writes it down.\n---\n")
    skill(tmp_path / "skills", "critic", "---\nname: critic\n")
    for target in ("writer", "writter"):
        (tmp_path / f"{target}.json").write_text(json.dumps(payload(target_agent_id=target)))
    files = [str(tmp_path / "writer.json"), str(tmp_path / "writter.json")]
    done = run("validate", *files, "--skills", str(tmp_path / "skills"), "--json")
    assert (done.returncode, done.stderr) == (0, "Could not parse critic. Skipping.\n")
    known, unknown = json.loads(done.stdout)["items"]
    assert known["issues"] == []
    (issue,) = unknown["issues"]
    assert (issue["code"], issue["metadata"]["closest"]) == ("chain.unknown_target", ["writer"])


def test_a_folder_without_skills_is_no_registry(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(payload()))
    done = run("validate", str(tmp_path / "one.json"), "--skills", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("holds no SKILL.md that can be read.\n")
