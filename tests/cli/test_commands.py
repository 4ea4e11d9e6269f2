"""The commands that work on the data folder, as a person calls them."""

import json
import sqlite3

import pytest

from tests.running.conftest import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data") / "made" / "by" / "the" / "first" / "command"


def test_a_key_is_printed_alone_before_anything_was_started(folder):
    made = run("key", "create", "crew", "--scopes", "ingest, review", folder=folder)
    assert made.returncode == 0
    assert made.stdout.count("\n") == 1
    assert made.stdout.startswith("ha_")
    assert made.stderr == ""
    listed = json.loads(run("key", "list", "--json", folder=folder).stdout)["items"]
    assert [(key["name"], key["scopes"], key["revoked_at"]) for key in listed] == [("crew", ["ingest", "review"], None)]
    assert listed[0]["prefix"] in made.stdout
    assert made.stdout.strip() not in json.dumps(listed)


def test_a_key_is_revoked_by_its_beginning_or_its_number(folder):
    first = json.loads(run("key", "create", "one", "--json", folder=folder).stdout)
    second = json.loads(run("key", "create", "two", "--json", folder=folder).stdout)
    assert run("key", "revoke", first["prefix"], folder=folder).returncode == 0
    assert run("key", "revoke", str(second["id"]), folder=folder).returncode == 0
    listed = json.loads(run("key", "list", "--json", folder=folder).stdout)["items"]
    assert {key["name"] for key in listed if key["revoked_at"]} == {"one", "two"}
    shown = run("key", "list", folder=folder).stdout
    assert "revoked" in shown
    assert "in use" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["create", "x", "--scopes", "ingest,fly"],
            "There is no scope 'fly': choose from ingest, read, review, admin.",
        ),
        (["create", "x", "--scopes", ""], "A key without a scope can do nothing"),
        (["create", " "], "A name is needed"),
        (["create", "x", "--tenant", "nobody"], "There is no tenant 'nobody': give one of default."),
        (["revoke", "99"], "'99' is no key of the tenant default"),
    ],
)
def test_what_is_refused_is_one_line(folder, arguments, said):
    done = run("key", *arguments, folder=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {said}")
    assert done.stderr.count("\n") == 1


def test_recount_finds_and_mends_a_wrong_count(folder):
    lines = "\n".join(["not json", '{"a": 1}'])
    assert run("import", "-", folder=folder, text=lines).returncode == 0
    assert run("recount", "--check", folder=folder).returncode == 0
    with sqlite3.connect(folder / "handoffaudit.sqlite3") as database:
        database.execute("UPDATE handoffs_hourlytotal SET number = number + 1")
    found = run("recount", "--check", "--json", folder=folder)
    assert found.returncode == 1
    assert json.loads(found.stdout)["wrong"] > 0
    assert "they are right now" in run("recount", folder=folder).stdout
    assert run("recount", "--check", folder=folder).returncode == 0


def test_recount_works_out_anew_who_caused_each_finding(folder):
    asked = json.loads(run("recount", "--agents", "--json", folder=folder).stdout)
    assert asked == {"rows": asked["rows"], "wrong": 0, "repaired": False, "gone_over": 2}
    assert "The findings of 2 handoffs were gone over." in run("recount", "--agents", folder=folder).stdout
    refused = run("recount", "--agents", "--check", folder=folder)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_verify_log_finds_a_changed_entry(folder):
    whole = run("verify-log", "--json", folder=folder)
    assert whole.returncode == 0
    assert json.loads(whole.stdout)["items"][0]["intact"] is True
    with sqlite3.connect(folder / "handoffaudit.sqlite3") as database:
        database.execute("UPDATE accounts_auditentry SET actor = 'somebody else' WHERE number = 2")
    broken = run("verify-log", folder=folder)
    assert broken.returncode == 1
    assert broken.stdout == "default: broken at entry 2: it was changed after it was written.\n"


def test_manage_passes_everything_on(folder):
    shown = run("manage", "showmigrations", "--plan", folder=folder)
    assert shown.returncode == 0
    assert "[X]  handoffs.0001_initial" in shown.stdout
    assert run("manage", "check", folder=folder).returncode == 0


def test_what_is_exported_can_be_imported_elsewhere_and_is_the_same_there(folder, tmp_path):
    exported = run("export", folder=folder)
    assert exported.returncode == 0, exported.stderr
    assert json.loads(exported.stdout)["document"] == {"a": 1}
    assert exported.stderr == "1 handoff written. 1 that are no JSON were left out.\n"
    elsewhere = tmp_path / "elsewhere"
    run("import", "-", folder=elsewhere, text=exported.stdout)
    assert run("export", folder=elsewhere).stdout == exported.stdout
    assert run("export", "--state", "held", folder=elsewhere).stdout == ""


def test_an_export_that_is_narrowed_wrongly_says_how_to_narrow_it(folder):
    done = run("export", "--state", "gone", folder=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --state is 'gone': use one of received,")
