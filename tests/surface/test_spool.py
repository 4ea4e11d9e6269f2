"""Snapshots of spool files, which a later version must still send."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from handoffaudit.cli.main import main
from tests.surface.snapshots import check, shape

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "hooks"
AWAY = ["--url", "http://127.0.0.1:9", "--key", "ha_0123456789abcdef", "--spool", "spool"]
REPORT = ["report-file", "--path", "handoff.json", "--agent", "planner", "--phase", "plan"]


def call(arguments: list[str], given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["handoffaudit", *arguments])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    with pytest.raises(SystemExit):
        main()


def files() -> dict[str, object]:
    """Return the spool's files by their names, digits as 0, and what is in them."""
    found: dict[str, object] = {}
    for path in sorted(Path("spool").rglob("*")):
        name = re.sub(r"[0-9a-f]{12}", "h", re.sub(r"\d{20}", "number", str(path)))
        if path.suffix == ".json":
            entry = json.loads(path.read_text())
            found[name] = shape(entry) | {"body": shape(json.loads(entry["body"]), ("hook_event_name",))}
        elif path.is_file():
            found[name] = "a file"
    return found


@pytest.mark.parametrize("kind", ["hook", "report-file"])
def test_spool_files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handoff.json").write_text(json.dumps({"status": "complete", "artifacts": [], "summary": "Done."}))
    event = (EXAMPLES / "post-tool-use.json").read_text()
    call([*(["hook"] if kind == "hook" else REPORT), *AWAY], event if kind == "hook" else "", monkeypatch)
    check(f"spool-{kind}", files())
