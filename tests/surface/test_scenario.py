"""Snapshots of what the scenario stored, sent and logged: JSON columns, audit entries, webhooks, log lines."""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.apps import apps
from django.db import models
from django.test import TestCase

import handoffaudit
from tests.surface.doors import AUDIT_ACTIONS
from tests.surface.scenario import Scenario, played
from tests.surface.snapshots import check, merge, shape

pytestmark = pytest.mark.django_db
APPS = ("accounts", "policy", "handoffs", "diagnostics")
# Rows of one table that hold different things are told apart by this column.
KIND = ("kind",)
# Documents of senders, entries that have a snapshot of their own, and what depends on the run.
LEFT_OUT = {
    "accounts.AuditEntry.detail",
    "diagnostics.LogBlock.packed",
    # The ids that earlier tests have spent and rolled back.
    "handoffs.Gathering.gaps",
    "handoffs.HandoffBody.lifted",
    "handoffs.HandoffBody.original",
}
LITERAL = ("event", "state", "kind", "change", "level")


@pytest.fixture(scope="module")
def scenario(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scenario]:
    """Yield the scenario, played once for the tests of this module."""
    with django_db_blocker.unblock():
        around = TestCase._enter_atomics()
        try:
            with played(tmp_path_factory.mktemp("scenario")) as left:
                yield left
        finally:
            TestCase._rollback_atomics(around)


def stored() -> dict[str, Any]:
    """Return the shape of each column that holds JSON."""
    found: dict[str, Any] = {}
    for model in (one for name in APPS for one in apps.get_app_config(name).get_models()):
        for column in (one for one in model._meta.concrete_fields if _may_hold_json(one)):
            place = f"{model._meta.label}.{column.attname}"
            for row in model._default_manager.all():
                value = _json(getattr(row, column.attname))
                if place not in LEFT_OUT and value is not None:
                    kind = next((f" of {getattr(row, name)}" for name in KIND if hasattr(row, name)), "")
                    found[place + kind] = merge(found.get(place + kind), shape(value))
    return found


def _may_hold_json(column: Any) -> bool:
    return isinstance(column, models.JSONField | models.TextField | models.BinaryField)


def _json(value: Any) -> Any:
    if isinstance(value, dict | list):
        return value
    text = bytes(value) if isinstance(value, memoryview | bytes) else str(value or "").encode()
    try:
        return orjson.loads(text) if text[:1] in (b"{", b"[") else None
    except orjson.JSONDecodeError:
        return None


def test_stored_json(scenario: Scenario) -> None:
    check("stored-json", stored())


def test_saved_views(scenario: Scenario) -> None:
    """A view is stored as the query of its page: the names in it open the page in later versions, too."""
    rows = apps.get_model("accounts.SavedView").objects.all()
    check("saved-views", [{"page": row.page, "name": row.name, "query": row.query} for row in rows])


def test_audit_actions(scenario: Scenario) -> None:
    told: dict[str, Any] = {}
    for entry in apps.get_model("accounts.AuditEntry").objects.filter(tenant=scenario.tenant):
        told[entry.action] = merge(told.get(entry.action), shape(entry.detail))
    check("audit-actions", {"declared": sorted(AUDIT_ACTIONS), "details of those seen": told})


def test_webhooks(scenario: Scenario) -> None:
    told: dict[str, Any] = {}
    for request in scenario.receiver.requests:
        name = request.told["event"]
        told[name] = merge(told.get(name), shape(request.told, LITERAL))
    headers = sorted({name for request in scenario.receiver.requests for name in request.headers})
    check("webhooks", {"payloads": told, "headers": headers})


def logged_in_code() -> dict[str, list[str]]:
    """Return what each structured log call in the package names beside its message."""
    found: dict[str, set[str]] = {}
    for path in Path(handoffaudit.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_log(node.func) and node.args:
                event = node.args[0]
                if isinstance(event, ast.Constant) and isinstance(event.value, str):
                    found.setdefault(event.value, set()).update(one.arg for one in node.keywords if one.arg)
    return {event: sorted(keys) for event, keys in found.items()}


def _is_log(called: ast.Attribute) -> bool:
    """Tell `log.info`, `file_log.info` and `get_logger(__name__).info` from other calls."""
    levels = ("debug", "info", "warning", "error", "exception", "critical")
    source = called.value.func if isinstance(called.value, ast.Call) else called.value
    name = source.attr if isinstance(source, ast.Attribute) else getattr(source, "id", "")
    return called.attr in levels and name in ("log", "file_log", "logger", "get_logger", "getLogger")


def test_log_keys(scenario: Scenario) -> None:
    told: dict[str, Any] = {}
    for line in scenario.logged:
        if line.get("logger") == "handoffaudit.handoffs.notify":
            # Whether a broker answers depends on the machine, and its thread may be of an earlier test.
            continue
        keys = {name: value for name, value in line.items() if not name.startswith("_")}
        told[line["event"]] = merge(told.get(line["event"]), shape(json.loads(json.dumps(keys, default=str))))
    check("log-keys", {"in the code": logged_in_code(), "whole lines": told})


def test_events_file(scenario: Scenario) -> None:
    told: dict[str, Any] = {}
    for line in scenario.events_file:
        value = _json(line)
        name = value["event_type"] if value else line.partition(" ")[2].partition(" ")[0]
        told[name] = merge(told.get(name), shape(value) if value else sorted(re.findall(r"(\w+)=", line)))
    check("events-file", told)


def test_exports(scenario: Scenario) -> None:
    told: dict[str, Any] = {}
    for name in ("handoffs/export/", "review/export/", "groups/export/"):
        table = scenario.admin.get(f"/t/acme/{name}", {"format": "csv"}).getvalue().decode()
        lines = scenario.admin.get(f"/t/acme/{name}", {"format": "ndjson"}).getvalue().splitlines()
        told[name] = {"csv": next(csv.reader(io.StringIO(table))), "ndjson": sorted(json.loads(lines[0]))}
    answer = scenario.admin.get("/t/acme/diagnostics/compliance.csv")
    text = (answer.getvalue() if answer.streaming else answer.content).decode()
    told["compliance"] = next(csv.reader(io.StringIO(text)))
    check("exports", told)
