"""Tests of failures: the replacement behaviour and the exact messages.

The log writer handles a trace log that cannot be written, because validation writes no trace log.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import handoffaudit
from handoffaudit.validation.agents import discover
from handoffaudit.validation.handoff_files import write_handoff
from handoffaudit.validation.tokenizers import CharacterCounter
from handoffaudit.validation.verdict import Outcome

from .formats.documents import EXAMPLES
from .support import NOW, judge, payload, universal

PACKAGE = Path(handoffaudit.__file__).parent
# version 2.0 is read by its adapter, which needs no schema of its own to lift it
FORMATS = sorted(path.stem for path in EXAMPLES.glob("*.json") if path.stem != "universal-2.0")
JUDGED = """
import json, sys
from datetime import UTC, datetime
{before}
from handoffaudit.validation import formats, pipeline
from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.layers import History, Subject
from handoffaudit.validation.record import Envelope

now = datetime.now(UTC)
for document in json.load(sys.stdin):
    record = formats.read(document, None, Envelope()).record
    subject = Subject(record, TypePolicy("*"), History(), now, default_counter())
    verdict = pipeline.run(subject, validation_id="v", now=lambda: now, monotonic=lambda: 0.0)
    issues = [[issue.code, issue.message, issue.severity] for issue in verdict.issues]
    tokens = verdict.token_counts and [verdict.token_counts.total, verdict.token_counts.tokenizer]
    print(json.dumps([record.format, verdict.outcome, issues, tokens]))
"""


def judged_apart(documents: list[Any], folder: Path, before: str = "") -> list[Any]:
    """Return the verdicts of a new process that finds the package in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGED.format(before=before)],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def without_schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the validation package as installed, but without the files of its schemas."""
    folder = tmp_path_factory.mktemp("package")
    ignore = shutil.ignore_patterns("*.schema.json", "__pycache__", ".mypy_cache")
    shutil.copytree(PACKAGE / "validation", folder / "handoffaudit" / "validation", ignore=ignore)
    shutil.copy(PACKAGE / "__init__.py", folder / "handoffaudit")
    return folder


def test_schema_files_missing_basic_checks_of_every_format(without_schemas: Path) -> None:
    documents = [json.loads((EXAMPLES / f"{name}.json").read_text()) for name in FORMATS]
    for name, (_, outcome, issues, _) in zip(FORMATS, judged_apart(documents, without_schemas), strict=True):
        said = [message for code, message, severity in issues if code == "structure.schema_missing"]
        assert said == ["Schema not found. Basic validation only."], name
        assert outcome == Outcome.ACCEPTED, (name, issues)


def test_schema_files_missing_what_is_required_is_still_asked_for(without_schemas: Path) -> None:
    broken = payload(data=3)
    del broken["target_agent_id"]
    ((_, outcome, issues, _),) = judged_apart([broken], without_schemas)
    assert outcome == Outcome.REJECTED
    assert issues[0] == ["structure.schema_missing", "Schema not found. Basic validation only.", "warning"]
    assert sorted(code for code, *_ in issues[1:]) == ["structure.missing_field", "structure.wrong_type"]


def test_without_a_tokenizer_the_characters_are_counted() -> None:
    document = payload()
    no_tokenizer = 'sys.modules["splintr"] = None'
    ((_, outcome, issues, tokens),) = judged_apart([document], PACKAGE.parent, no_tokenizer)
    assert outcome == Outcome.ACCEPTED
    assert ["tokens.estimated", "tiktoken unavailable. Using estimation.", "info"] in issues
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    assert tokens == [CharacterCounter().count(text), CharacterCounter.name]


def test_one_skills_front_matter_unreadable_it_is_left_out() -> None:
    registry = discover([("skills/critic/SKILL.md", "---\nname: [\n---\n"), ("skills/writer/SKILL.md", "# Writer")])
    assert registry.warnings == ("Could not parse critic. Skipping.",)
    assert registry.names == {"writer"}


def test_handoff_file_cannot_be_written_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "session").write_text("a file stands where the folder should be")
    fallback = tmp_path / "temporary"
    written = write_handoff(b"{}", tmp_path / "session", "researcher", "writer", NOW, temporary=fallback)
    assert written.path.parent == fallback
    assert written.path.read_bytes() == b"{}"
    assert written.issue is not None
    assert (written.issue.code, written.issue.severity) == ("files.fallback_location", "warning")
    assert written.issue.message.startswith("Using fallback location. ")


def test_legacy_without_trace_id_one_is_made() -> None:
    document = universal()
    del document["handoff"]["trace_id"]
    (issue,) = judge(document).issues
    assert (issue.code, issue.severity) == ("structure.generated_trace_id", "warning")
    assert issue.message.startswith("Generated trace_id for legacy handoff. ")


def test_target_not_known_warning_with_the_closest_names() -> None:
    verdict = judge(payload(target_agent_id="writr"), known_agents=frozenset({"writer", "planner"}))
    (issue,) = verdict.issues
    assert (issue.code, issue.severity, verdict.outcome) == ("chain.unknown_target", "warning", Outcome.ACCEPTED)
    assert issue.metadata["closest"] == ["writer"]
    assert '"writer"' in issue.hint
