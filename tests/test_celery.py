"""Tests of the connections of a worker, and of its tasks while the database fails."""

from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from handoffaudit.celery import OWN_THREADS, app, have_connections
from handoffaudit.handoffs import judge, tasks


@pytest.mark.parametrize(
    ("threads", "given", "most"),
    [(2, 2 + OWN_THREADS + 1, 2 + OWN_THREADS + 1), (2, 12, 2 + OWN_THREADS), (32, 12, 32 + OWN_THREADS)],
)
def test_a_worker_has_one_for_each_of_its_threads(threads: int, given: int, most: int, monkeypatch) -> None:
    monkeypatch.setattr(connection, "close_pool", lambda: None, raising=False)
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setitem(settings.DATABASES["default"], "OPTIONS", {"pool": {"min_size": 1, "max_size": given}})
    have_connections(sender=SimpleNamespace(concurrency=threads))
    assert settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"] == most


def test_a_task_that_met_a_fault_of_the_database_is_one_warning(monkeypatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OperationalError("no room")

    monkeypatch.setattr(judge, "drain", fail)
    # Other tests create other Celery applications, and a shared task belongs to the newest.
    task = app.tasks[tasks.judge_waiting.name]
    with caplog.at_level("WARNING"):
        assert task.apply().state == "FAILURE"
    [record] = caplog.records
    assert isinstance(record.msg, dict)
    assert (record.levelname, record.msg["error"], record.exc_info) == ("WARNING", "no room", None)
