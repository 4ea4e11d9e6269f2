"""Tests that the log lines of a task in a worker process name the requests that caused the task."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running.conftest import clean_environment, prepared, wait_for

# A worker of the product with one task more, which logs a line.
WORKER = """
import structlog
from celery.signals import worker_ready
from handoffaudit.celery import app

@app.task(name="tests.note")
def note():
    structlog.get_logger("tests").warning("noted")

@worker_ready.connect
def say(**_):
    structlog.get_logger("tests").warning("ready")

app.start(["--quiet", "worker", "--pool", "threads", "--concurrency", "1", "--queues", "structural",
           "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"])
"""

SENDER = """
from handoffaudit.observability import begin_request
from handoffaudit.celery import REQUEST_IDS, app
from handoffaudit.handoffs import notify

begin_request({"HTTP_X_REQUEST_ID": "mine"})
assert notify.send("tests.note")
assert notify.send("tests.note", ["one", "two"])
hostile = ["ok-1", "a b", 7, "x" * 65, {"a": 1}, *(f"id-{at}" for at in range(50))]
app.send_task("tests.note", headers={REQUEST_IDS: hostile})
app.send_task("tests.note", headers={REQUEST_IDS: "text"})
"""


@pytest.mark.nightly
def test_a_task_names_the_requests_that_caused_it(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "data")
    env = clean_environment(HANDOFFAUDIT_DATA=str(folder), DJANGO_SETTINGS_MODULE="handoffaudit.settings")
    # Other tests of this process may have left other settings of the log.
    env |= {"HANDOFFAUDIT_LOG_LEVEL": "WARNING", "HANDOFFAUDIT_LOG_FORMAT": "json"}
    out = tmp_path / "log"
    with out.open("w") as file, subprocess.Popen([sys.executable, "-c", WORKER], env=env, stderr=file) as worker:
        try:
            # A message that waits for long expires.
            wait_for(lambda: '"ready"' in out.read_text(), 60)
            subprocess.run([sys.executable, "-c", SENDER], env=env, check=True)
            wait_for(lambda: out.read_text().count('"noted"') == 4, 60)
        finally:
            worker.send_signal(signal.SIGTERM)
    lines = [json.loads(line) for line in out.read_text().splitlines() if '"noted"' in line]
    assert {line["task"] for line in lines} == {"tests.note"}
    found = [line.get("request_id") or line.get("request_ids") for line in lines]
    expected = ["mine", ["one", "two"], ["ok-1", *(f"id-{at}" for at in range(9))], None]
    assert sorted(found, key=str) == sorted(expected, key=str)
