"""From raw bytes to the outcome, one file per code of the catalogue.

`<code>.json`, and `<code>--<variant>.json` for more of the same. Each holds what was sent and what came of it. After a
wanted change, `REGENERATE_GOLDENS=1 pytest tests/validation/test_goldens.py` writes the `expected` parts anew: read
the difference before committing it.
"""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.validation.codes import CATALOGUE
from handoffaudit.validation.config import CircularPolicy, Mode, TypePolicy
from handoffaudit.validation.counting import CharacterCounter, default_counter
from handoffaudit.validation.formats import read
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import History, Subject
from handoffaudit.validation.pipeline import decide, run
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope

from .support import NOW

FOLDER = Path(__file__).parent / "goldens"
FILES = sorted(FOLDER.glob("*.json"))
ENUMS = {"circular_policy": CircularPolicy, "mode": Mode, "layers_off": frozenset}


class Listing:
    """A view of a machine that holds exactly these files."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def exists(self, path: str) -> bool:
        return path in self.paths


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
        ),
        validation_id="v",
        now=lambda: NOW,
        monotonic=lambda: 0.0,
    )
    return {
        "outcome": verdict.outcome.value,
        "quality_score": verdict.quality_score,
        "issues": [described(issue) for issue in verdict.issues],
    }


def described(issue: Issue) -> dict[str, str]:
    return {
        "code": issue.code,
        "path": issue.field_path,
        "severity": issue.severity.value,
        "message": issue.message,
        "hint": issue.hint,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    golden = json.loads(path.read_text())
    found = outcome_of(golden)
    if os.environ.get("REGENERATE_GOLDENS"):
        path.write_text(json.dumps({**golden, "expected": found}, indent=2, ensure_ascii=False) + "\n")
        return
    assert found == golden["expected"]
    assert path.stem.split("--")[0] in [issue["code"] for issue in found["issues"]]


def test_every_code_has_a_golden() -> None:
    assert {path.stem.split("--")[0] for path in FILES} == set(CATALOGUE)
