"""Tests of the commands that work on the data folder."""

import json
import secrets
import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Key, Tenant
from handoffaudit.cli import Stop
from handoffaudit.cli.key import _find, _format_line
from tests.running.conftest import prepared, run

WITH_DATA = [
    ("key", "create", "ci"),
    ("key", "list"),
    ("sign-in-link", "admin"),
    ("import", "-"),
    ("import-log", "--source", "nightly", "-"),
    ("export",),
    ("recount", "--check"),
    ("verify-log",),
    ("backup", "kept.sqlite3"),
    ("report-file", "--path", "none", "--agent", "planner", "--phase", "plan"),
    ("manage", "shell"),
]


# One can't be read, the other can.
TWO_HANDOFFS = 'not json\n{"a": 1}'


@pytest.fixture
def folder(tmp_path_factory):
    """Return a data folder of the test's own: tests of one file may run in several processes."""
    return prepared(tmp_path_factory.mktemp("data") / "made")


@pytest.fixture(scope="module")
def _filled(tmp_path_factory):
    folder = prepared(tmp_path_factory.mktemp("filled") / "made")
    assert run("import", "-", folder=folder, text=TWO_HANDOFFS).returncode == 0
    return folder


@pytest.fixture
def filled(_filled, tmp_path_factory):
    """Return a data folder of the test's own with two handoffs imported."""
    return Path(shutil.copytree(_filled, tmp_path_factory.mktemp("data") / "made"))


@pytest.mark.parametrize("arguments", WITH_DATA, ids=" ".join)
def test_where_no_data_is_none_is_made(arguments, tmp_path):
    done = run(*arguments, folder=tmp_path / "typo", text="{}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"There is no data in {tmp_path / 'typo'}: name the folder that handoffaudit up was started" in done.stderr
    assert not (tmp_path / "typo").exists()


def test_the_first_migration_makes_them(tmp_path):
    assert run("manage", "migrate", "contenttypes", folder=tmp_path / "new").returncode == 0
    assert (tmp_path / "new" / "handoffaudit.sqlite3").is_file()


@pytest.mark.nightly
def test_all_migrations_make_them(tmp_path):
    assert run("manage", "migrate", folder=tmp_path / "new").returncode == 0
    assert run("key", "list", folder=tmp_path / "new").returncode == 0


def test_a_key_is_printed_alone(folder):
    made = run("key", "create", "crew", "--scopes", "ingest, review", folder=folder)
    assert made.returncode == 0
    assert made.stdout.count("\n") == 1
    assert made.stdout.startswith("ha_")
    assert made.stderr == ""
    listed = json.loads(run("key", "list", "--json", folder=folder).stdout)["items"]
    assert [(key["name"], key["scopes"], key["revoked_at"]) for key in listed] == [("crew", ["ingest", "review"], None)]
    assert listed[0]["prefix"] in made.stdout
    assert made.stdout.strip() not in json.dumps(listed)


def test_a_key_that_captures_tool_results_has_a_seam(folder):
    made = run("key", "create", "proxy", "--scopes", "observe", "--seam", "outside", "--json", folder=folder)
    assert json.loads(made.stdout)["seam"] == "outside"
    assert run("key", "create", "x", "--scopes", "ingest", "--seam", "outside", folder=folder).returncode == 2


def test_a_key_is_bound_to_agents(folder):
    made = json.loads(run("key", "create", "crew", "--agent", "a", "--agent", "b-*", "--json", folder=folder).stdout)
    assert made["agents"] == ["a", "b-*"]
    bound = run("key", "bind", str(made["id"]), "--agent", "c", folder=folder)
    assert "speaks for c" in bound.stderr
    assert "speaks for c" in run("key", "list", folder=folder).stdout
    assert "speaks for any agent" in run("key", "bind", str(made["id"]), folder=folder).stderr
    assert run("key", "bind", str(made["id"]), "--agent", "x" * 201, folder=folder).returncode == 2


def test_a_key_is_revoked_by_its_beginning_or_its_number(folder):
    first = json.loads(run("key", "create", "one", "--json", folder=folder).stdout)
    second = json.loads(run("key", "create", "two", "--json", folder=folder).stdout)
    assert run("key", "create", "kept", folder=folder).returncode == 0
    assert run("key", "revoke", first["prefix"], folder=folder).returncode == 0
    assert run("key", "revoke", str(second["id"]), folder=folder).returncode == 0
    listed = json.loads(run("key", "list", "--json", folder=folder).stdout)["items"]
    assert {key["name"] for key in listed if key["revoked_at"]} == {"one", "two"}
    shown = run("key", "list", folder=folder).stdout
    assert "revoked" in shown
    assert "active" in shown


@pytest.mark.django_db
def test_a_key_that_the_list_no_longer_shows_is_found(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SHOWN_AT_MOST", 1)
    for name in ("old", "new"):
        keys.create(tenant=tenant, name=name, scopes=["read"], expires_at=None, actor="ada")
    old = Key.objects.get(name="old")
    assert [_find(tenant, wanted) for wanted in (str(old.pk), old.prefix, f"{old.prefix}…")] == [old.pk] * 3
    for wanted in ("", "x", str(old.pk + 100), "9" * 30):
        with pytest.raises(Stop, match="is not a key"):
            _find(tenant, wanted)


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        (None, "active"),
        (datetime(2026, 2, 15, tzinfo=UTC), "expired 2026-02-15"),
        (datetime.max.replace(tzinfo=UTC), "active"),
    ],
)
def test_the_list_of_keys_names_expired_keys(ends: datetime | None, state: str) -> None:
    key = Key(pk=3, prefix="ha_abc", name="ci", scopes=["read"], agents=[], expires_at=ends)
    assert f"  {state}, never used" in _format_line(key)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["create", "x", "--scopes", "ingest,fly"],
            "There is no scope 'fly': choose from ingest, observe, read, review, admin.",
        ),
        (["create", "x", "--scopes", ""], "A key without a scope can do nothing"),
        (["create", " "], "A name is needed"),
        (["create", "x", "--tenant", "nobody"], "There is no tenant 'nobody': give one of default."),
        (["revoke", "99"], "'99' is not a key of the tenant default"),
    ],
)
def test_what_is_refused_is_one_line(folder, arguments, said):
    done = run("key", *arguments, folder=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {said}")
    assert done.stderr.count("\n") == 1


def test_recount_finds_and_mends_a_wrong_count(filled):
    assert run("recount", "--check", folder=filled).returncode == 0
    with sqlite3.connect(filled / "handoffaudit.sqlite3") as database:
        database.execute("UPDATE handoffs_hourlytotal SET number = number + 1")
    found = run("recount", "--check", "--json", folder=filled)
    assert found.returncode == 1
    assert json.loads(found.stdout)["wrong"] > 0
    assert "were wrong and are corrected" in run("recount", folder=filled).stdout
    assert run("recount", "--check", folder=filled).returncode == 0


def test_recount_works_out_anew_who_caused_each_finding(filled):
    asked = json.loads(run("recount", "--agents", "--json", folder=filled).stdout)
    assert asked == {"rows": asked["rows"], "wrong": 0, "repaired": False, "gone_over": 2}
    assert "The findings of 2 handoffs were attributed again." in run("recount", "--agents", folder=filled).stdout
    refused = run("recount", "--agents", "--check", folder=filled)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_verify_log_finds_a_changed_entry(folder):
    for name in ("one", "two"):
        assert run("key", "create", name, folder=folder).returncode == 0
    whole = run("verify-log", "--json", folder=folder)
    assert whole.returncode == 0
    assert json.loads(whole.stdout)["items"][0]["intact"] is True
    with sqlite3.connect(folder / "handoffaudit.sqlite3") as database:
        database.execute("UPDATE accounts_auditentry SET actor = 'somebody else' WHERE number = 2")
    broken = run("verify-log", folder=folder)
    assert broken.returncode == 1
    assert broken.stdout.splitlines()[1] == "  audit entry 2: it was changed after it was written"


def test_manage_migrate_makes_the_data_folder_also_if_the_keys_are_in_the_environment(tmp_path):
    key = {"HANDOFFAUDIT_SECRET_KEY": secrets.token_urlsafe(50)}
    assert run("manage", "migrate", "contenttypes", folder=tmp_path / "a" / "b", **key).returncode == 0
    refused = run("manage", "migrate", folder=tmp_path, DATABASE_URL="postgresql://u@127.0.0.1:1/x", **key)
    assert refused.stderr.startswith("Error: The database x at 127.0.0.1:1 can't be used (")
    assert refused.stderr.count("\n") == 1


def test_manage_passes_everything_on(folder):
    shown = run("manage", "showmigrations", "--plan", folder=folder)
    assert shown.returncode == 0
    assert "[X]  handoffs.0001_squashed_0011_deciders" in shown.stdout
    assert run("manage", "check", folder=folder).returncode == 0
    late = run("manage", "changepassword", "ada", "--data", "x", folder=folder)
    told = "--data goes before the command: handoffaudit manage --data DIR changepassword."
    assert (late.returncode, told in late.stderr) == (2, True)


def test_what_is_exported_can_be_imported_elsewhere_and_is_the_same_there(filled, tmp_path):
    exported = run("export", folder=filled)
    assert exported.returncode == 0, exported.stderr
    assert json.loads(exported.stdout)["document"] == {"a": 1}
    assert exported.stderr == "1 handoff written. 1 that are not JSON were left out.\n"
    elsewhere = prepared(tmp_path / "elsewhere")
    run("import", "-", folder=elsewhere, text=exported.stdout)
    assert run("export", folder=elsewhere).stdout == exported.stdout
    assert run("export", "--state", "held", folder=elsewhere).stdout == ""
    undecided = run("export", "--reviews", folder=elsewhere)
    assert undecided.stdout == ""
    assert undecided.stderr.startswith("0 handoffs written. No matching handoff was decided by a person: decide ")


def test_what_is_exported_is_already_there_where_it_came_from(folder):
    payload = {"tenant_id": "default", "source_agent_id": "researcher", "target_agent_id": "writer"}
    payload |= {"call_chain": ["planner", "researcher"], "handoff_type": "research_result"}
    payload["data"] = {"summary": "Three suppliers deliver."}
    named = json.dumps(payload | {"trace_id": "run-1"})
    beside = json.dumps({"document": payload, "trace_id": "run-1", "step": 2, "reason": "The research is done."})
    run("import", "-", folder=folder, text=f"{named}\n{beside}")
    again = run("import", "-", folder=folder, text=run("export", folder=folder).stdout)
    assert again.returncode == 0, again.stdout
    assert "already there         2" in again.stdout


def test_an_export_of_a_code_that_there_is_not_says_so(folder):
    done = run("export", "--code", "foo.bar", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--code is 'foo.bar', which is not a rule code" in done.stderr
    assert run("export", "--code", "chain.circular", folder=folder).returncode == 0


def test_a_backup_is_the_whole_database_and_nobody_elses(filled, tmp_path):
    target = tmp_path / "kept.sqlite3"
    assert run("backup", str(target), folder=filled).returncode == 0
    assert target.stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kept.sqlite3"]
    restored = prepared(tmp_path / "restored")
    shutil.copy(target, restored / "handoffaudit.sqlite3")
    assert run("export", folder=restored).stdout == run("export", folder=filled).stdout
    again = run("backup", str(target), folder=filled)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


@pytest.mark.parametrize("place", ["none/x", "file/x"])
def test_a_backup_that_can_not_be_written_is_one_line(place, folder, tmp_path):
    (tmp_path / "file").touch()
    elsewhere = run("backup", str(tmp_path / place), folder=folder)
    assert (elsewhere.returncode, elsewhere.stderr.count("\n")) == (2, 1)
    assert "can't be written" in elsewhere.stderr


def test_a_backup_of_postgresql_is_its_own_programs(folder):
    done = run("backup", "x", folder=folder, DATABASE_URL="postgresql://127.0.0.1:1/none")
    assert (done.returncode, "pg_dump" in done.stderr) == (2, True)


def test_another_tenant_is_made_as_the_docs_say(folder):
    told = (Path(__file__).parents[2] / "docs" / "keys.md").read_text()
    code = told.partition('manage shell -c "\n')[2].partition('"\n')[0].replace("\n    ", "\n").strip()
    person = "from handoffaudit.accounts.models import Person; Person.objects.create(username='ada')"
    assert run("manage", "shell", "-c", person, folder=folder).returncode == 0
    made = run("manage", "shell", "-c", code, folder=folder)
    assert made.returncode == 0, made.stderr
    assert run("key", "create", "crew", "--tenant", "team", folder=folder).returncode == 0


def test_an_export_that_is_narrowed_wrongly_says_how_to_narrow_it(folder):
    done = run("export", "--state", "gone", folder=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --state is 'gone': use one of received,")


def test_a_link_lets_somebody_in_again(folder):
    code = "from handoffaudit.accounts.models import Person; Person.objects.create_user('Mara', password='x')"
    assert run("manage", "shell", "-c", code, folder=folder).returncode == 0
    made = run("sign-in-link", "mara", "--reset-second-factor", folder=folder)
    assert (made.returncode, made.stdout.startswith("/welcome/")) == (0, True)
    assert "Put the address of the server before the link" in made.stderr
    named = run("sign-in-link", "mara", folder=folder, HANDOFFAUDIT_PUBLIC_URL="https://audit.example.com")
    assert (named.stdout.startswith("https://audit.example.com/welcome/"), named.stderr) == (True, "")


def test_a_link_for_nobody_is_one_line(folder):
    done = run("sign-in-link", "nobody", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: There is no active person 'nobody': see Settings, People, for the names.\n"
