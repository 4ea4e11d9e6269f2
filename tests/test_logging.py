"""Tests that logs contain no secrets, by the standard error of a process of its own, and no noise."""

import json
import logging
import subprocess
import sys

import pytest

from handoffaudit.observability import OutageFilter

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


def test_a_warning_about_an_outage_is_written_once_a_minute() -> None:
    outages = OutageFilter()

    def written(name: str, message: object, *values: object) -> logging.LogRecord | None:
        record = logging.LogRecord(name, logging.WARNING, "", 0, message, values or None, None)
        return record if outages.filter(record) else None

    def swept(error: str) -> dict[str, object]:
        return {"event": "the sweep could not use the database", "error": error}

    assert written("jobs", swept("file 17 is full"))
    assert written("psycopg.pool", "discarding %s", "<Connection at 0x7f9a>")
    assert not written("jobs", swept("file 18 is full"))
    waits = {"event": "a delivery waits: the database can't be reached", "error": "file 17 is full"}
    assert [bool(written("webhooks", waits)) for _ in range(2)] == [True, False]
    assert not written("psycopg.pool", "discarding %s", "<Connection at 0x11c0>")
    # Another cause is news, and each warning about one handoff is its own.
    assert written("jobs", swept("the server is away"))
    assert all(written("jobs", {"event": "a handoff could not be judged"}) for _ in range(2))
    # A minute is over.
    outages.seen = {key: (0.0, left_out) for key, (_, left_out) in outages.seen.items()}
    again, pool = (
        written("jobs", swept("file 19 is full")),
        written("psycopg.pool", "discarding %s", "<Connection at 0x1>"),
    )
    assert again
    assert isinstance(again.msg, dict)
    assert again.msg["left_out"] == 1
    assert pool
    assert pool.getMessage() == "discarding <Connection at 0x1> (1 equal warnings were left out)"
