"""Tests of the connections of a worker."""

from types import SimpleNamespace

import pytest
from django.conf import settings
from django.db import connection

from handoffaudit.celery import OWN_THREADS, have_connections


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
