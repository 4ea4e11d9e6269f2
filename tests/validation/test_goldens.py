"""Tests from raw bytes to the outcome, with one file per rule code of the catalogue.

Further cases of a rule code are in `<code>--<variant>.json` beside `<code>.json`. Each file holds the submission and
the expected outcome. `model` holds the LLM's answer to each use as text, or the reason why the LLM is unavailable.
After a wanted change, `REGENERATE_GOLDENS=1 pytest tests/validation/test_goldens.py` writes the `expected` parts
again: read the difference before the commit.
"""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.policy.rules import parse_sets
from handoffaudit.validation.config import (
    CircularPolicy,
    CritiquePolicy,
    EvidencePolicy,
    FailMode,
    GroundingPolicy,
    Mode,
    Requirements,
    Strictness,
    TypePolicy,
)
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.formats import payload, read
from handoffaudit.validation.formats.schema_check import Shape
from handoffaudit.validation.handoff_files import write_handoff
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.layers import CATALOGUE, FAMILIES, LAYERS, MODEL_LAYERS, History, Subject
from handoffaudit.validation.pipeline import decide, run
from handoffaudit.validation.prompts.question import Answer, Question, Reason, Role, Unavailable
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.tokenizers import CharacterCounter, default_counter

from .support import NOW

FOLDER = Path(__file__).parent / "goldens"
FILES = sorted(FOLDER.glob("*.json"))
ENUMS = {
    "circular_policy": CircularPolicy,
    "critique": CritiquePolicy,
    "critique_model": Role,
    "fail_mode": FailMode,
    "evidence": EvidencePolicy,
    "grounding": GroundingPolicy,
    "mode": Mode,
    "strictness": Strictness,
    "layers_off": frozenset,
}


class Listing:
    """A view of a machine that holds exactly these files."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def exists(self, path: str) -> bool:
        return path in self.paths


class Scripted:
    """An LLM that answers each use from the golden file, or is unavailable for the reason in the file."""

    def __init__(self, by_use: dict[str, Any]) -> None:
        self.by_use = by_use

    def ask(self, question: Question) -> Answer:
        told = self.by_use[question.use]
        if isinstance(told, dict):
            raise Unavailable(Reason(told["unavailable"]), told["detail"], status=told.get("status"))
        return Answer(question.read(told), told, "golden-model", 0.001, 12.0)


def demanded(given: dict[str, Any]) -> Requirements:
    fields = given.get("claim_fields")
    return Requirements(
        rules=parse_sets(given.get("rules", [])),
        schema=DataSchema.of(given["schema"]) if "schema" in given else None,
        claim_fields=tuple(fields) if fields is not None else None,
        strict_files=given.get("strict_files", False),
    )


def outcome_of(golden: dict[str, Any]) -> dict[str, Any]:
    document, issues = parse_json(golden["raw"].encode())
    record = None
    if not issues:
        reading = read(document, golden["format"], Envelope(**golden.get("envelope", {})))
        record, issues = reading.record, reading.issues
    if record is None:
        return {"outcome": decide(issues).value, "issues": [described(issue) for issue in issues]}
    files = golden.get("files")
    verdict = run(
        Subject(
            record=record,
            policy=TypePolicy("*", **{k: ENUMS.get(k, type(v))(v) for k, v in golden.get("policy", {}).items()}),
            history=History(
                **{k: tuple(v) if isinstance(v, list) else v for k, v in golden.get("history", {}).items()}
            ),
            received_at=datetime.fromisoformat(golden["received_at"]) if "received_at" in golden else NOW,
            counter=CharacterCounter() if golden.get("no_tokenizer") else default_counter(),
            files=None if files is None else Listing(files),
            demands=demanded(golden.get("demands", {})),
            known_agents=frozenset(golden["known_agents"]) if "known_agents" in golden else None,
            model=Scripted(golden["model"]) if "model" in golden else None,
        ),
        layers=(*LAYERS, *MODEL_LAYERS) if "model" in golden else None,
        validation_id="v",
        now=lambda: NOW,
        monotonic=lambda: 0.0,
    )
    return {
        "outcome": verdict.outcome.value,
        "quality_score": verdict.quality_score,
        "issues": [described(issue) for issue in verdict.issues],
    }


def written(golden: dict[str, Any], temporary: Path) -> list[dict[str, str]]:
    """Return the finding on writing the handoff under `written_under`, in a list."""
    record = read(parse_json(golden["raw"].encode())[0], golden["format"], Envelope()).record
    assert record is not None
    assert record.timestamp is not None
    agents = record.source_agent_id, record.target_agent_id
    done = write_handoff(
        golden["raw"].encode(), golden["written_under"], *agents, record.timestamp, temporary=temporary
    )
    text = json.dumps(described(done.issue) if done.issue else {}).replace(str(temporary), "{temporary}")
    return [json.loads(text)]


def described(issue: Issue) -> dict[str, str]:
    return {
        "code": issue.code,
        "path": issue.field_path,
        "severity": issue.severity.value,
        "message": issue.message,
        "hint": issue.hint,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads(path.read_text())
    if golden.get("without_schema"):
        monkeypatch.setattr(payload, "_SHAPE", Shape("payload", payload._BASICS, tmp_path))
    found = outcome_of(golden)
    if "written_under" in golden:
        found["issues"] += written(golden, tmp_path)
    if os.environ.get("REGENERATE_GOLDENS"):
        path.write_text(json.dumps({**golden, "expected": found}, indent=2, ensure_ascii=False) + "\n")
        return
    assert found == golden["expected"]
    assert path.stem.split("--")[0] in [issue["code"] for issue in found["issues"]]


def test_every_code_has_a_golden() -> None:
    codes = {path.stem.split("--")[0] for path in FILES}
    assert {code for code in codes if code.partition(".")[0] not in FAMILIES} == set(CATALOGUE)
    assert {code.partition(".")[0] for code in codes} >= set(FAMILIES)
