"""Tests of the commands about retention, legal holds and erasures."""

import json

import orjson
import pytest

from handoffaudit.cli import retention
from handoffaudit.policy.retention import Data, Retention
from tests.handoffs.support import payload
from tests.running.conftest import prepared, run

EMAIL = "ada@example.com"


@pytest.fixture
def folder(tmp_path):
    """Return a data folder with one handoff that names a person."""
    made = prepared(tmp_path / "made")
    sent = payload(tenant_id="default", data={"contact": EMAIL})
    document = {"document": sent, "handoff_id": "first", "trace_id": "run-42"}
    assert run("import", "-", folder=made, text=orjson.dumps(document).decode()).returncode == 0
    return made


def test_terms_are_shown_and_a_deletion_is_previewed(folder):
    shown = json.loads(run("retention", "show", "--json", folder=folder).stdout)["items"]
    [one] = [row for row in shown if row["name"] == "handoffs"]
    assert one == {"name": "handoffs", "days": None, "types": {}, "there": 1, "goes": 0, "removed": 0}
    assert "handoffs        kept forever, 1 stored" in run("retention", "show", folder=folder).stdout
    previewed = run("retention", "preview", "handoffs", "30", folder=folder)
    assert "would delete 0 rows of handoffs" in previewed.stdout
    assert previewed.stderr.startswith("Less than six months (183 days): ")
    wrong = run("retention", "preview", "handoffs", "0", folder=folder)
    assert (wrong.returncode, "Use a whole number from 1" in wrong.stderr) == (2, True)
    assert "There is no such kind of data." in run("retention", "preview", "verdicts", "9", folder=folder).stderr


@pytest.mark.parametrize(
    ("days", "types", "said"),
    [
        (None, {}, "forever"),
        (1, {}, "1 day"),
        (3650, {"a": 1}, "3,650 days (1 type with other terms)"),
        (None, {"a": 1, "b": None}, "forever (2 types with other terms)"),
    ],
)
def test_terms_are_told_in_the_right_number(days, types, said):
    assert retention._terms(Retention(Data.HANDOFFS, days, types)) == said


def test_lines_of_logs_are_told_as_lines():
    assert (retention._unit("logs"), retention._unit("handoffs")) == ("lines", "rows")


def test_holds_are_placed_listed_and_lifted(folder):
    for scope, key in (("tenant", "acme"), ("tenant", "run-42")):
        refused = run("retention", "hold", scope, key, "--reason", "Case 117", folder=folder)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"A hold on the tenant default has no id '{key}'" in refused.stderr
    placed = run("retention", "hold", "trace", "run-42", "--reason", "Case 117", folder=folder)
    assert placed.stdout == "Hold 1 on the trace run-42 is active.\n"
    assert "active: Case 117" in run("retention", "holds", folder=folder).stdout
    assert run("retention", "lift", "1", "--reason", "closed", folder=folder).stdout == "Hold 1 is lifted.\n"
    listed = json.loads(run("retention", "holds", "--json", folder=folder).stdout)["items"]
    assert [(one["scope"], one["active"]) for one in listed] == [("trace", False)]
    for arguments in (("hold", "handoff", "nothing", "--reason", "x"), ("lift", "7", "--reason", "x")):
        done = run("retention", *arguments, folder=folder)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_value_is_counted_and_then_erased(folder):
    counted = run("retention", "erase", EMAIL, "--reason", "she asked", folder=folder)
    assert "documents" in counted.stdout
    assert "Nothing is changed yet" in counted.stdout
    assert EMAIL in run("export", folder=folder).stdout
    done = json.loads(run("retention", "erase", EMAIL, "--reason", "x", "--yes", "--json", folder=folder).stdout)
    assert (done["state"], done["erased"]["documents"]) == ("done", 1)
    exported = run("export", folder=folder).stdout
    assert EMAIL not in exported
    assert "[erased]" in exported
    refused = run("retention", "erase", "4711", "--reason", "x", folder=folder)
    assert (refused.returncode, "numbers outside quotes" in refused.stderr) == (2, True)


def test_only_one_process_corrects_counts(folder):
    hold = (
        "from handoffaudit.diagnostics.models import Watermark\n"
        "from handoffaudit.handoffs.recount import RecountLease\n"
        "RecountLease(Watermark, 'recount').acquire()"
    )
    assert run("manage", "shell", "-c", hold, folder=folder).returncode == 0
    refused = run("recount", folder=folder)
    assert (refused.returncode, "Another process corrects the counts" in refused.stderr) == (2, True)
    assert run("recount", "--check", folder=folder).returncode == 0
