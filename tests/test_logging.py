"""Tests that logs contain no secrets: the standard error of a process of its own."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import logging, uuid
from pathlib import Path
import structlog
from handoffaudit.observability import configure_logs

configure_logs(FORM, "INFO")
key = "sk-" + "ant-api03-" + "a1B2" * 10
log, other = structlog.get_logger("here"), logging.getLogger("other")
log.info("refused: " + key, api_key="hunter2", url="redis://:hunter2@cache/0", deep={"a": [{"password": "hunter2"}]})
other.warning("Authorization: Bearer %s", key)
try:
    raise RuntimeError("401 for " + key)
except RuntimeError as error:
    log.exception("it failed", error=error, id=uuid.UUID(int=7), where=Path("a/b"))
    other.exception("it failed")
with structlog.contextvars.bound_contextvars(token="hunter2", handoff="h-1"):
    log.info("seen", tokens_in=512, ok=True, values=[1, 2.5, None, ("a", {3})])
"""


def logged(form: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("FORM", repr(form))], capture_output=True, text=True, check=True
    )
    return done.stderr


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_masked_in_events_records_and_exceptions(form: str) -> None:
    text = logged(form)
    assert "a1B2" not in text
    assert "hunter2" not in text
    # the event, three of its values, the record, the error in both its texts, the other's exception, what was bound
    assert text.count("[masked]") == 9
    assert text.count("RuntimeError: 401 for [masked]") == 2
    assert "00000000-0000-0000-0000-000000000007" in text
    assert "h-1" in text
    assert "512" in text


def test_lines_stay_json() -> None:
    lines = [json.loads(line) for line in logged("json").splitlines()]
    assert len(lines) == 5
    assert lines[0]["deep"] == {"a": [{"password": "[masked]"}]}
    assert lines[2]["where"] == "a/b"
    assert lines[4]["values"] == [1, 2.5, None, ["a", [3]]]
    assert (lines[4]["token"], lines[4]["tokens_in"], lines[4]["ok"]) == ("[masked]", 512, True)
