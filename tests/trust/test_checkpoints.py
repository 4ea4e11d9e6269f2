"""Tests of checkpoints: what is written where, and what contradicts them."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from handoffaudit import env
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.cli.main import main
from handoffaudit.trust import checkpoints, seals
from handoffaudit.trust.models import Checkpoint, Seal, SealProgress
from handoffaudit.trust.signatures import make_key
from tests.handoffs.support import judged, payload, set_policy
from tests.trust.support import own_key, seal_all, sealed_history

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path: Path, settings: Any) -> Path:
    settings.CHECKPOINTS = [str(tmp_path / "checkpoints.jsonl")]
    return tmp_path / "checkpoints.jsonl"


@pytest.fixture
def verify_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs `verify-log` with arguments and returns its exit code and what it printed."""
    database = settings.DATA_FOLDER / "handoffaudit.sqlite3"
    database.touch()

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["handoffaudit", "verify-log", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(str(ended.value.code)), capsys.readouterr().out

    yield run
    database.unlink()


Run = Callable[..., tuple[int, str]]


def contradictions(tenant: Tenant, file: Path) -> list[str]:
    lines = checkpoints.read_lines(file, {own_key().public})
    return [problem for line in lines for problem in checkpoints.compare(tenant, line)]


def history_with_checkpoint(tenant: Tenant) -> None:
    sealed_history(tenant)
    checkpoints.write_due()


def test_a_checkpoint_names_the_newest_entry_and_the_newest_seal(tenant: Tenant, file: Path) -> None:
    history_with_checkpoint(tenant)
    [line] = map(json.loads, file.read_text().splitlines())
    newest = Seal.objects.latest("number")
    assert (line["tenant"], line["seal_number"], line["seal_hash"]) == ("acme", newest.number, newest.seal_hash)
    assert line["audit_hash"] == AuditEntry.objects.latest("number").entry_hash
    assert file.stat().st_mode & 0o777 == 0o600
    assert contradictions(tenant, file) == []


def test_a_checkpoint_is_written_once_and_again_when_something_grew(tenant: Tenant, file: Path) -> None:
    history_with_checkpoint(tenant)
    checkpoints.write_due()
    judged(tenant, payload())
    seal_all()
    checkpoints.write_due()
    assert len(file.read_text().splitlines()) == 1
    Checkpoint.objects.update(at="2026-01-01T00:00Z")
    checkpoints.write_due()
    Checkpoint.objects.update(at="2026-01-01T00:00Z")
    checkpoints.write_due()
    assert len(file.read_text().splitlines()) == 2


def test_a_clock_that_was_ahead_stops_no_checkpoint(tenant: Tenant, file: Path) -> None:
    history_with_checkpoint(tenant)
    judged(tenant, payload())
    seal_all()
    Checkpoint.objects.update(at=timezone.now() + timedelta(days=400))
    checkpoints.write_due()
    assert len(file.read_text().splitlines()) == 2


def test_a_removed_tail_is_found(tenant: Tenant, file: Path, verify_log: Run) -> None:
    history_with_checkpoint(tenant)
    newest = AuditEntry.objects.latest("number")
    newest.delete()
    Tenant.objects.update(audit_number=newest.number - 1)
    Seal.objects.filter(audit_number=newest.number).delete()
    SealProgress.objects.update(reached=Seal.objects.latest("number").reached)
    assert verify_log("--tenant", "acme")[0] == 0
    code, told = verify_log("--tenant", "acme", "--checkpoint", file)
    assert code == 1
    assert f"audit entry {newest.number}: it is missing" in told
    assert "seal 3: it is missing" in told


@pytest.mark.parametrize("before", ["worker-1  | ", "Nov 29 17:40:02 audit handoffaudit[812]: "])
def test_a_checkpoint_in_a_log_may_have_text_before_it(tenant: Tenant, file: Path, before: str) -> None:
    history_with_checkpoint(tenant)
    line = file.read_text()
    file.write_text(f"{before}ready\n{before}{line}")
    assert [one.number for one in checkpoints.read_lines(file, {own_key().public})] == [2]
    assert contradictions(tenant, file) == []
    file.write_text(before + line.replace('"seal_number":3', '"seal_number":2'))
    assert contradictions(tenant, file) == ["checkpoint in line 1: its signature is wrong"]


def test_emptied_tables_are_found(tenant: Tenant, file: Path, verify_log: Run) -> None:
    history_with_checkpoint(tenant)
    AuditEntry.objects.all().delete()
    Seal.objects.all().delete()
    SealProgress.objects.all().delete()
    Tenant.objects.update(audit_number=0)
    assert verify_log("--tenant", "acme")[0] == 0
    code, told = verify_log("--tenant", "acme", "--checkpoint", file)
    assert (code, told.count("it is missing")) == (1, 2)


def test_a_chain_that_the_server_itself_sealed_again_is_found(tenant: Tenant, file: Path, verify_log: Run) -> None:
    history_with_checkpoint(tenant)
    Seal.objects.all().delete()
    SealProgress.objects.all().delete()
    for _ in range(3):
        seal_all()
        set_policy(tenant, "research_result", token_budget=901 + Seal.objects.count())
    assert verify_log("--tenant", "acme")[0] == 0
    code, told = verify_log("--tenant", "acme", "--checkpoint", file)
    assert code == 1
    assert "seal 3: the checkpoint in line 1, made at " in told


def test_a_consistent_forged_chain_without_the_key_is_found(tenant: Tenant, file: Path, verify_log: Run) -> None:
    history_with_checkpoint(tenant)
    Seal.objects.all().delete()
    SealProgress.objects.all().delete()
    seals.seal_batch(make_key())
    assert verify_log("--tenant", "acme")[0] == 1
    code, told = verify_log("--tenant", "acme", "--checkpoint", file, "--key", Seal.objects.get().public_key)
    assert (code, "it is signed with an unknown key" in told) == (1, True)


def test_a_removed_tenant_is_found(tenant: Tenant, file: Path, verify_log: Run) -> None:
    history_with_checkpoint(tenant)
    Tenant.objects.filter(pk=tenant.pk).update(slug="renamed")
    code, told = verify_log("--checkpoint", file)
    assert code == 1
    assert "there is no tenant with this name" in told
    assert "has no checkpoint of this tenant" in told


def test_a_changed_checkpoint_is_found(tenant: Tenant, file: Path) -> None:
    history_with_checkpoint(tenant)
    facts = json.loads(file.read_text())
    for name in (*checkpoints._FACTS, "signature"):
        changed = facts[name] + 1 if isinstance(facts[name], int) else f"{facts[name]}x"
        file.write_text(json.dumps(facts | {name: changed}))
        [problem] = contradictions(tenant, file)
        assert problem.startswith("checkpoint in line 1: it"), name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\n",
        b"[]\n{}\n1\n",
        b'{"checkpoint": 1}\n',
        b"x" * 10_000_000,
        b"x" * 3000 + b"\n" + b"[" * 1999,
        b'{"checkpoint": 1, "signature": 1' + b" " * 5000 + b"}",
    ],
)
def test_other_lines_are_no_checkpoints(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").write_bytes(content)
    assert list(checkpoints.read_lines(tmp_path / "log", [])) == []


@pytest.mark.parametrize(
    "line", ['{"checkpoint": 1, "signature": 1}', '{"checkpoint": true, "signature": [], "tenant": {"a": 1}}']
)
def test_checkpoints_of_another_form_prove_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "log").write_text(f"a log line\n{line}\n")
    [found] = checkpoints.read_lines(tmp_path / "log", [])
    assert (found.number, found.wrong) == (2, "it has other fields than a checkpoint")


def test_numbers_that_no_column_holds_are_missing(tenant: Tenant) -> None:
    facts = checkpoints.make_checkpoint(tenant, own_key()) | {"seal_number": 2**70, "audit_number": -1}
    assert len(list(checkpoints.compare(tenant, checkpoints.Line(1, facts)))) == 2


def test_a_place_that_fails_is_tried_again_later(tenant: Tenant, file: Path, settings: Any, tmp_path: Path) -> None:
    settings.CHECKPOINTS = [str(tmp_path / "no folder" / "file"), "http://127.0.0.1:9/", str(file)]
    history_with_checkpoint(tenant)
    checkpoints.write_due()
    assert len(file.read_text().splitlines()) == 1
    settings.CHECKPOINTS = [str(file)]
    Checkpoint.objects.update(at="2026-01-01T00:00Z")
    checkpoints.write_due()
    assert len(file.read_text().splitlines()) == 2


def test_checkpoints_go_to_standard_output(tenant: Tenant, settings: Any, capfd: Any) -> None:
    settings.CHECKPOINTS = ["-"]
    checkpoints.write_due()
    [line] = map(json.loads, capfd.readouterr().out.splitlines())
    assert (line["tenant"], line["seal_number"]) == ("acme", 0)


def test_places_are_absolute_paths_addresses_or_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("/data")
    assert env.checkpoint_places("PLACES", folder) == ["/data/checkpoints.jsonl"]
    for given, places in (("off", []), ("-, /a/b", ["-", "/a/b"]), ("https://a.example/", ["https://a.example/"])):
        monkeypatch.setenv("PLACES", given)
        assert env.checkpoint_places("PLACES", folder) == places
    monkeypatch.setenv("PLACES", "relative.jsonl")
    with pytest.raises(env.ImproperlyConfigured, match=r"relative\.jsonl"):
        env.checkpoint_places("PLACES", folder)
