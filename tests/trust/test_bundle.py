"""Tests of evidence bundles: what is inside, who gets it, and what the offline check finds."""

import errno
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from django.conf import settings
from django.test import Client, TestCase
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.cli.trust import INCOMPLETE, verify_bundle
from handoffaudit.handoffs import export
from handoffaudit.handoffs.export import Download
from handoffaudit.handoffs.models import Event, HandoffBody, RemovedDocument
from handoffaudit.handoffs.review import activity
from handoffaudit.trust import bundle, bundle_check, seals, signatures
from handoffaudit.trust.bundle_check import WrongBundle, check
from handoffaudit.trust.models import Seal, SealKind
from handoffaudit.trust.signatures import VARIABLE, make_key
from tests.api.support import client, problem
from tests.api.support import make_key as make_api_key
from tests.handoffs.support import circular, held, judged, payload, set_policy
from tests.trust.support import ADA, decide, own_key, seal_all, sealed_history

pytestmark = pytest.mark.django_db


def write(path: Path, subject: bundle.Subject, *, with_audit: bool = True) -> Path:
    with path.open("wb") as file:
        file.writelines(bundle.build(subject, own_key(), by="ada", with_audit=with_audit))
    return path


def build(tenant: Tenant, folder: Path) -> Path:
    """Write a bundle about a period with an approval, a decline, a reopening and a saved policy."""
    sealed_history(tenant)
    return write(folder / "evidence.zip", bundle.find_subject(tenant, {"period": "24h"}))


@pytest.fixture(scope="module")
def kept_bundle(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    with django_db_blocker.unblock():
        around = TestCase._enter_atomics()
        try:
            tenant = Tenant.objects.create(slug="acme", name="Acme")
            return build(tenant, tmp_path_factory.mktemp("bundle")).read_bytes()
        finally:
            TestCase._rollback_atomics(around)


@pytest.fixture
def made(kept_bundle: bytes, tmp_path: Path) -> Path:
    """Return a bundle, without the rows in the database about which it is."""
    path = tmp_path / "evidence.zip"
    path.write_bytes(kept_bundle)
    return path


def change(path: Path, edit: Callable[[dict[str, bytes]], Any]) -> Path:
    """Write the bundle again after `edit` changed its files."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    edit(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def sign_again(files: dict[str, bytes]) -> None:
    """Make the manifest fit the changed files, and sign it with the right key: the server itself could do this."""
    from handoffaudit.trust.signatures import canonical, sha256

    manifest = json.loads(files.pop("manifest.json"))
    files.pop("manifest.sig")
    manifest["files"] = [
        {"path": name, "sha256": sha256(content), "size": len(content)} for name, content in files.items()
    ]
    files["manifest.json"] = canonical(manifest)
    files["manifest.sig"] = own_key().sign(bundle_check.PURPOSE, files["manifest.json"]).encode()


def test_a_bundle_has_documents_verdicts_policies_decisions_and_seals(tenant: Tenant, tmp_path: Path) -> None:
    made = build(tenant, tmp_path)
    result = check(made, own_key().public)
    assert (result.problems, result.notes) == ([], [])
    assert result.sealed >= 3 + 3 + 2 + 1
    with zipfile.ZipFile(made) as archive:
        rows = [json.loads(line) for line in archive.read("rows.jsonl").splitlines()]
        handoffs = [json.loads(line) for line in archive.read("handoffs.jsonl").splitlines()]
        for one in handoffs:
            body = HandoffBody.objects.get(pk=one["id"])
            assert archive.read(f"documents/{one['id']}/original") == bytes(body.original)
        policies = [json.loads(line) for line in archive.read("policies-as-shipped.jsonl").splitlines()]
        entries = [json.loads(json.loads(line)["canonical"]) for line in archive.read("audit.jsonl").splitlines()]
        summary = archive.read("summary.html").decode()
    reasons = {row["reason"] for row in rows if row["row"] == "event" and row["actor"] == "ada"}
    assert reasons == {"It is right.", "The chain is too long.", "A mistake."}
    assert len([row for row in rows if row["row"] == "verdict"]) == len(handoffs) == 3
    assert {one["kind"] for one in policies} >= {"strictness", "rules"}
    assert entries[-1]["action"] == "strictness.save"
    for told in ("The chain is too long.", "ada", "chain.circular", "under"):
        assert told in summary
    assert count_decisions(summary) == 3


def count_decisions(summary: str) -> int:
    (number,) = re.findall(r"Decisions of people and keys</\w+><td>([\d,]+)<", summary)
    return int(number)


def test_a_bundle_about_a_handoff_has_its_attempts(tenant: Tenant, tmp_path: Path) -> None:
    first = judged(tenant, circular(handoff_id="first"))
    second = judged(tenant, payload(handoff_id="second"), retry_of="first")
    judged(tenant, payload())
    seal_all()
    subject = bundle.about_handoff(tenant, str(second.pk))
    assert [one.pk for one in subject.handoffs] == [first.pk, second.pk]
    made = write(tmp_path / "x.zip", subject)
    assert check(made, own_key().public).problems == []
    with zipfile.ZipFile(made) as archive:
        # The key that sent the second attempt has decided nothing.
        assert count_decisions(archive.read("summary.html").decode()) == 0


def test_what_a_sender_wrote_is_escaped_in_the_summary(tenant: Tenant, tmp_path: Path) -> None:
    judged(tenant, payload(source_agent_id="<script>alert(1)</script>", call_chain=["<b>"]))
    path = write(tmp_path / "x.zip", bundle.find_subject(tenant, {"period": "24h"}))
    with zipfile.ZipFile(path) as archive:
        summary = archive.read("summary.html").decode()
    assert "<script" not in summary
    assert "&lt;script&gt;" in summary


def test_the_summary_shows_signs_that_turn_or_hide_text(tenant: Tenant, tmp_path: Path) -> None:
    judged(tenant, payload(source_agent_id="writer\u202etxt", call_chain=["writer\u202etxt"], handoff_type="a\u2066b"))
    path = write(tmp_path / "x.zip", bundle.find_subject(tenant, {"period": "24h"}))
    with zipfile.ZipFile(path) as archive:
        summary = archive.read("summary.html").decode()
    assert "writer\ufffdtxt" in summary
    assert "a\ufffdb" in summary
    assert not {"\u202e", "\u2066"} & set(summary)


def test_a_bundle_says_that_retention_removed_a_document(tenant: Tenant, tmp_path: Path) -> None:
    handoff = judged(tenant, payload())
    HandoffBody.objects.filter(pk=handoff.pk).delete()
    RemovedDocument.objects.create(handoff=handoff, tenant=tenant, at=timezone.now(), days=200, sha256="0" * 64)
    path = write(tmp_path / "x.zip", bundle.about_handoff(tenant, str(handoff.pk)))
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("handoffs.jsonl"))["document_removed"]["kept_days"] == 200
        assert not [name for name in archive.namelist() if name.startswith("documents/")]


def test_rows_without_a_seal_are_a_note(tenant: Tenant, tmp_path: Path) -> None:
    handoff = judged(tenant, held())
    decide(tenant, handoff)
    result = check(write(tmp_path / "x.zip", bundle.about_handoff(tenant, str(handoff.pk))), own_key().public)
    assert (result.problems, result.sealed) == ([], 0)
    assert "3 events, verdicts or policies had no seal yet" in result.notes[0]


def test_a_bundle_after_a_change_of_the_key_leads_old_seals_to_the_new_key(tenant: Tenant, tmp_path: Path) -> None:
    handoff, new = sealed_history(tenant)[1], make_key()
    seals.change_key(own_key(), new)
    subject = bundle.about_handoff(tenant, str(handoff.pk))
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        file.writelines(bundle.build(subject, new, by="ada", with_audit=False))
    assert check(path, new.public).problems == []
    [problem_found] = check(path, own_key().public).problems
    assert "the manifest is signed with the key" in problem_found


def test_a_bundle_after_the_loss_of_the_key_is_intact_with_a_note(tenant: Tenant, tmp_path: Path) -> None:
    handoff, new = sealed_history(tenant)[1], make_key()
    seals.change_key(None, new)
    subject = bundle.about_handoff(tenant, str(handoff.pk))
    path = tmp_path / "x.zip"
    with path.open("wb") as file:
        file.writelines(bundle.build(subject, new, by="ada", with_audit=False))
    result = check(path, new.public)
    assert result.problems == []
    assert result.notes[0] == "seal 4 replaces a lost key: the old key has not signed it"
    assert result.notes[1].startswith("seals from before the loss, for whose keys only this bundle vouches: ")
    head, other = Seal.head_of(tenant), make_key()
    assert head is not None
    late = seals.make_seal(tenant, head, (), head.reached, own_key(), SealKind.KEY)
    late.new_key = other.public
    late.sign(own_key())
    late.new_signature = other.sign(signatures.SEAL_PURPOSE, late.seal_hash.encode())
    late.save(force_insert=True)
    with path.open("wb") as file:
        file.writelines(bundle.build(subject, new, by="ada", with_audit=False))
    assert check(path, new.public).problems == ["seal 5: no chain of keys leads from its key to the key of the bundle"]


def names_of(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_every_changed_file_is_found(made: Path, tmp_path: Path) -> None:
    for name in names_of(made):
        copy = shutil.copy(made, tmp_path / "copy.zip")
        change(Path(copy), lambda files, name=name: files.update({name: files[name][:-1] + b"?"}))  # type: ignore[misc]
        if name.startswith("manifest"):
            with pytest.raises(WrongBundle):
                check(Path(copy), None)
        else:
            assert f"{name}: it was changed" in check(Path(copy), None).problems


def test_a_removed_file_and_an_added_file_are_found(made: Path) -> None:
    change(made, lambda files: (files.pop("rows.jsonl"), files.update(added=b"1")))
    assert check(made, None).problems == ["added: it is not in the manifest", "rows.jsonl: it is missing"]


def test_a_bundle_of_another_key_is_found(made: Path) -> None:
    assert check(made, make_key().public).problems
    assert check(made, None).notes[0].endswith("was compared with nothing: give --key")


def swap(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def edit(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)
        sign_again(files)

    return edit


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (swap("rows.jsonl", b"It is right.", b"It is wrong."), "it differs from its seal"),
        (swap("seals.jsonl", b'"number":1', b'"number":7'), "seal 7: it was changed"),
        (swap("seals.jsonl", b'"signature":"', b'"signature":"A'), "its signature is wrong"),
        (swap("seals.jsonl", b'"list":"', b'"list":"!'), "its list of rows cannot be read"),
        (swap("seals.jsonl", b'"reached"', b'"reacheD"'), "a field is missing"),
        (swap("audit.jsonl", b"strictness.save", b"strictness.load"), "the entry differs from its hash"),
        (swap("checkpoint.json", b'"seal_number":3', b'"seal_number":4'), "its signature is wrong"),
        (swap("checkpoint.json", b"{", b"["), "cannot be read"),
        (swap("handoffs.jsonl", b'"content_hash":"', b'"content_hash":"x'), "another hash of the document"),
    ],
)
def test_changes_under_a_right_manifest_contradict_the_seals(made: Path, edit: Any, told: str) -> None:
    change(made, edit)
    problems = check(made, own_key().public).problems
    assert any(told in one for one in problems), problems


def test_audit_entries_that_do_not_follow_each_other_are_found(made: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        lines = files["audit.jsonl"].splitlines(keepends=True)
        files["audit.jsonl"] = b"".join([*lines, lines[0]])
        sign_again(files)

    change(made, edit)
    assert any("does not follow" in one for one in check(made, None).problems)


def test_a_clock_that_was_set_back_leaves_no_gap_in_the_audit_log(
    tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judged(tenant, payload())
    for seconds in (1, -1, 2):
        moment = found.received_at + timedelta(seconds=seconds)
        monkeypatch.setattr(audit, "timezone", SimpleNamespace(now=lambda moment=moment: moment))
        audit.record(tenant=tenant, actor="ada", action="key.create", target="robot", detail={})
    result = check(write(tmp_path / "one.zip", bundle.about_handoff(tenant, str(found.pk))), own_key().public)
    assert (result.problems, result.entries) == ([], 3)


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return out.getvalue()


def signed(files: list[Any], left_out: Any = None, **others: bytes) -> bytes:
    from handoffaudit.trust.signatures import canonical

    key = make_key()
    facts = {"format": bundle_check.FORMAT, "version": 1, "tenant": "a", "public_key": key.public, "files": files}
    manifest = canonical(facts | {"made_at": "", "made_by": "", "subject": {}, "left_out": left_out or {}})
    return zipped(manifest_json=manifest, manifest_sig=key.sign("bundle", manifest).encode(), **others)


HOSTILE = {
    "empty": b"",
    "no zip": b"PK\x03\x04" + b"\xff" * 200,
    "no manifest": zipped(a=b"1"),
    "a manifest that is no JSON": zipped(manifest_json=b"{", manifest_sig=b""),
    "a deep manifest": zipped(manifest_json=b"[" * 100_000, manifest_sig=b""),
    "a manifest of other types": zipped(manifest_json=b'{"format": [], "files": {}}', manifest_sig=b"\xff"),
    "a file without a digest": signed([{"path": "a"}]),
    "a long list of files": zipped(**{f"{number}{'x' * 60_000}": b"" for number in range(80)}),
    "a manifest with another word for a number": signed([], left_out="many"),
    "a manifest that unpacks to much": zipped(manifest_json=b" " * 20_000_000, manifest_sig=b""),
    "a signature that unpacks to much": zipped(manifest_json=b"{}", manifest_sig=b" " * 20_000_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_bundle_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.zip").write_bytes(HOSTILE[name])
    with pytest.raises(WrongBundle):
        check(tmp_path / "x.zip", None)


def test_a_file_that_unpacks_to_more_than_the_manifest_says_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(signed([{"path": "a", "sha256": "0" * 64, "size": 10}], a=b" " * 50_000_000))
    assert check(path, None).problems == ["a: it was changed"]


@pytest.mark.parametrize("content", [b"[]\n", b"{\n", b"[" * 100_000])
def test_lines_that_are_no_objects_are_refused(made: Path, content: bytes) -> None:
    change(made, lambda files: (files.update({"rows.jsonl": content}), sign_again(files)))
    with pytest.raises(WrongBundle):
        check(made, None)


@pytest.mark.parametrize("bound", ["MOST_ROWS", "MOST_SEALS", "MOST_HANDOFFS"])
def test_more_lines_than_the_product_writes_are_refused(
    made: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_check, bound, 2)
    with pytest.raises(WrongBundle, match="too many lines"):
        check(made, None)


def test_any_cut_of_a_bundle_is_refused(made: Path) -> None:
    whole = made.read_bytes()
    for end in range(0, len(whole), max(1, len(whole) // 40)):
        made.write_bytes(whole[:end])
        with pytest.raises(WrongBundle):
            check(made, None)


def test_a_damaged_byte_is_found_or_changes_nothing(made: Path) -> None:
    whole = bytearray(made.read_bytes())
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        damaged = whole.copy()
        damaged[at] ^= 0xFF
        made.write_bytes(damaged)
        try:
            result = check(made, own_key().public)
        except WrongBundle:
            continue
        # A byte of the ZIP format that nobody reads, such as a time.
        assert result.problems or zip_content(made) == zip_content_of(bytes(whole))


def zip_content(path: Path) -> dict[str, bytes]:
    return zip_content_of(path.read_bytes())


def zip_content_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_bundle_has_bounds(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        judged(tenant, payload())
    monkeypatch.setattr(bundle, "MOST_HANDOFFS", 2)
    with pytest.raises(bundle.TooLarge, match="more than 2 handoffs"):
        bundle.find_subject(tenant, {"period": "24h"})
    monkeypatch.setattr(bundle, "MOST_HANDOFFS", 3)
    subject = bundle.find_subject(tenant, {"period": "24h"})
    monkeypatch.setattr(bundle, "MOST_BYTES", 1000)
    with pytest.raises(bundle.TooLarge, match="documents have"):
        bundle.find_subject(tenant, {"period": "24h"})
    for name, value in (("MOST_BYTES", 2000), ("MOST_SECONDS", -1.0)):
        monkeypatch.setattr(bundle, "MOST_BYTES", 10**9)
        monkeypatch.setattr(bundle, name, value)
        with pytest.raises(bundle.TooLarge, match="too many bytes or too long"):
            list(bundle.build(subject, own_key(), by="ada", with_audit=True))


def test_another_tenant_has_no_part_in_a_bundle(tenant: Tenant, tmp_path: Path) -> None:
    other = Tenant.objects.create(slug="other", name="Other")
    theirs = judged(other, circular(tenant_id="other", data={"summary": "a secret of the other tenant"}))
    decide(other, theirs, note="Their secret note.")
    handoff = judged(tenant, payload())
    seal_all()
    with pytest.raises(type(theirs).DoesNotExist):
        bundle.about_handoff(tenant, str(theirs.pk))
    path = write(tmp_path / "x.zip", bundle.find_subject(tenant, {"period": "24h"}))
    content = zip_content(path)
    assert f"documents/{handoff.pk}/original" in content
    assert not [name for name, text in content.items() if b"secret" in text or str(theirs.pk).encode() in text]


def test_a_bundle_says_what_it_left_out(tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = judged(tenant, circular(handoff_id="first"))
    for name in ("second", "third", "fourth"):
        judged(tenant, payload(handoff_id=name), retry_of="first")
    for text in ("One.", "Two.", "Three."):
        activity.add_comment(tenant=tenant, reference=str(first.pk), text=text, actor=ADA)
    for budget in (900, 901):
        set_policy(tenant, "research_result", token_budget=budget)
    for name, value in (("MOST_PER_HANDOFF", 2), ("_PART", 1), ("MOST_ENTRIES", 1)):
        monkeypatch.setattr(bundle, name, value)
    subject = bundle.about_handoff(tenant, str(first.pk))
    assert [one.handoff_id for one in subject.handoffs] == ["first", "fourth"]
    path = write(tmp_path / "x.zip", subject)
    events = Event.objects.filter(handoff__in=[one.pk for one in subject.handoffs]).count()
    expected = {"attempts": 2, "events": events - 4, "comments": 2, "audit_entries": 1}
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("manifest.json"))["left_out"] == expected
        summary = archive.read("summary.html").decode()
    told = CliRunner().invoke(verify_bundle, [str(path), "--key", own_key().public])
    assert told.exit_code == INCOMPLETE
    assert "intact, but not complete" in told.output
    for number, words in zip(expected.values(), ("older attempts", "later events", "comments", "audit"), strict=True):
        assert re.search(rf"<li>{number} [^<]*{words}", summary)
        assert re.search(rf"left out: {number} .*{words}", told.output)


def test_few_bundles_are_made_at_once() -> None:
    begun = [Download(iter([b"1"])) for _ in range(export.MOST_AT_ONCE)]
    with pytest.raises(export.Busy):
        Download(iter([b"1"]))
    assert b"".join(begun[0]) == b"1"
    again = Download(iter([]))
    begun[1].close()
    again.close()
    assert len(export._under_way) == 0


def test_a_slow_reader_loses_its_place_to_another_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(export, "time", SimpleNamespace(monotonic=lambda: now))
    begun = [Download(iter([b"1"] * 9)) for _ in range(export.MOST_AT_ONCE)]
    assert next(begun[0]) == next(begun[1]) == b"1"
    now = export.PATIENCE_SECONDS
    with pytest.raises(export.Busy):
        Download(iter([]))
    assert next(begun[0]) == b"1"
    now += 1
    again = Download(iter([]))
    assert len(export._stalled) == 2
    monkeypatch.setattr(export, "MOST_STALLED", 2)
    with pytest.raises(export.Busy):
        Download(iter([]))
    for slow in begun:
        with pytest.raises(export.SlowReader):
            next(slow)
    again.close()
    assert not (*export._under_way, *export._stalled)


def test_a_reader_that_stops_after_a_large_part_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(export, "time", SimpleNamespace(monotonic=lambda: now))
    read = Download(iter([b"x" * export.LEAST_BYTES_PER_SECOND * 600, b"y", b"z"]))
    next(read)
    now = 600
    assert next(read) == b"y"
    now += export.PATIENCE_SECONDS + 1
    with pytest.raises(export.SlowReader):
        next(read)


def test_a_reader_is_not_slow_while_it_waits_for_the_server_or_reads_fast_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(export, "time", SimpleNamespace(monotonic=lambda: now))

    def parts() -> Iterator[bytes]:
        nonlocal now
        for _ in range(5):
            now += 100
            yield b"x" * export.LEAST_BYTES_PER_SECOND * 50

    read = Download(parts())
    for _ in range(5):
        next(read)
        now += 50
    assert list(read) == []


@pytest.mark.parametrize(("scopes", "has_audit"), [(("read",), False), (("read", "admin"), True)])
def test_the_api_answers_a_bundle(tenant: Tenant, tmp_path: Path, scopes: tuple[str, ...], *, has_audit: bool) -> None:
    handoff = sealed_history(tenant)[1]
    with client(make_api_key(tenant, *scopes)) as api:
        answer = api.get("/evidence", params={"handoff": str(handoff.pk)})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/zip"
    (tmp_path / "x.zip").write_bytes(answer.content)
    assert check(tmp_path / "x.zip", own_key().public).problems == []
    assert ("audit.jsonl" in names_of(tmp_path / "x.zip")) is has_audit


def test_the_api_says_why_there_is_no_bundle(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(tenant, payload())
    judged(tenant, payload())
    with client(make_api_key(tenant, "read")) as api:
        problem(api.get("/evidence", params={"handoff": "none"}), 404)
        problem(api.get("/evidence", params={"trace": "none"}), 404)
        problem(api.get("/evidence", params={"trace": "a\x00b"}), 404)
        problem(api.get("/evidence", params={"trace": "a", "handoff": "b"}), 400)
        problem(api.get("/evidence", params={"period": "999999999999d"}), 400)
        problem(api.get("/evidence", params={"since": "x"}), 400)
        problem(api.get("/evidence", params={"handof": "x"}), 400)
        monkeypatch.setattr(bundle, "MOST_HANDOFFS", 1)
        assert problem(api.get("/evidence"), 413)["limit"] == 1
        monkeypatch.setattr(export, "MOST_AT_ONCE", 0)
        monkeypatch.setattr(bundle, "MOST_HANDOFFS", 10)
        problem(api.get("/evidence"), 503)
        monkeypatch.setenv(VARIABLE, "no key")
        assert "no key" not in problem(api.get("/evidence"), 503)["detail"].removeprefix(VARIABLE)


def test_only_administrators_find_the_audit_log_in_a_bundle_of_a_page(
    tenant: Tenant, sign_in: Callable[[Person], Client], viewer: Person, admin: Person, tmp_path: Path
) -> None:
    handoff = sealed_history(tenant)[1]
    for person, has_audit in ((viewer, False), (admin, True)):
        answer = sign_in(person).get(f"/t/acme/handoffs/{handoff.pk}/evidence.zip")
        (tmp_path / "x.zip").write_bytes(answer.getvalue())
        assert check(tmp_path / "x.zip", own_key().public).problems == []
        assert ("audit.jsonl" in names_of(tmp_path / "x.zip")) is has_audit


def test_the_pages_lead_to_bundles_and_say_why_there_is_none(
    tenant: Tenant, sign_in: Callable[[Person], Client], viewer: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = judged(tenant, payload(), trace_id="a/b")
    browser = sign_in(viewer)
    assert f"/t/acme/handoffs/{handoff.pk}/evidence.zip" in browser.get(f"/t/acme/handoffs/{handoff.pk}/").text
    assert "/t/acme/traces/a/b/evidence.zip" in browser.get("/t/acme/traces/a/b/").text
    assert "evidence.zip?period=7d" in browser.get("/t/acme/diagnostics/compliance/?period=7d").text
    assert browser.get("/t/acme/traces/a/b/evidence.zip").getvalue()[:2] == b"PK"
    assert browser.get("/t/acme/diagnostics/compliance/evidence.zip?period=x").status_code == 400
    monkeypatch.setattr(bundle, "MOST_HANDOFFS", 0)
    refused = browser.get("/t/acme/diagnostics/compliance/evidence.zip?period=7d", follow=True)
    assert "No evidence bundle: The period has more than 0 handoffs" in refused.text


@pytest.fixture
def database() -> Iterator[None]:
    file = settings.DATA_FOLDER / "handoffaudit.sqlite3"
    file.touch()
    yield
    file.unlink()


def run(*arguments: object) -> int:
    from handoffaudit.cli.main import main

    sys.argv = ["handoffaudit", *map(str, arguments)]
    with pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code))


def test_the_commands_write_and_check_a_bundle(
    tenant: Tenant, database: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    handoff = sealed_history(tenant)[1]
    file, key = tmp_path / "x.zip", tmp_path / "key.pub"
    asked = ("evidence", "--tenant", "acme", "--output", file)
    assert run(*asked, "--handoff", handoff.pk) == 0
    assert run(*asked, "--handoff", handoff.pk) == 2
    assert "is there already" in capsys.readouterr().err
    assert run(*asked[:-1], tmp_path / "y.zip", "--trace", "none") == 2
    assert not (tmp_path / "y.zip").exists()
    assert run(*asked[:-1], tmp_path / "y.zip", "--since", "24h") == 0
    assert run(*asked) == 2
    assert run("seal-key", "show") == 0
    key.write_text(capsys.readouterr().out)
    assert run("verify-bundle", file, "--key", key) == 0
    assert "intact" in capsys.readouterr().out
    assert run("verify-bundle", file, "--key", make_key().public, "--json") == 1
    assert json.loads(capsys.readouterr().out)["intact"] is False
    file.write_bytes(file.read_bytes()[:-100])
    assert run("verify-bundle", file, "--key", key) == 1


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("output", [Full(), None])
def test_a_new_key_that_cannot_be_printed_does_not_sign(
    output: Any, tenant: Tenant, database: None, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    old = own_key()
    monkeypatch.setenv(VARIABLE, old.secret)
    sealed_history(tenant)

    with monkeypatch.context() as changed:
        changed.setattr(sys, "stdout", output)
        assert run("seal-key", "rotate") == 2
    assert "the key did not change" in capsys.readouterr().err
    assert Seal.objects.latest("number").current_key == old.public
    assert run("seal-key", "rotate") == 0
    new = signatures.parse_key(capsys.readouterr().out, "")
    assert Seal.objects.latest("number").current_key == new.public


def test_a_forged_bundle_writes_no_lines_of_its_own(made: Path) -> None:
    def forge(files: dict[str, bytes]) -> None:
        manifest = json.loads(files["manifest.json"]) | {"made_by": "ada\n\x1b[2K  note: signed with the right key"}
        files["manifest.json"] = json.dumps(manifest).encode()
        files["manifest.sig"] = own_key().sign(bundle_check.PURPOSE, files["manifest.json"]).encode()

    told = CliRunner().invoke(verify_bundle, [str(change(made, forge))]).output
    assert "\x1b" not in told
    assert "\n\x1b" not in told
    assert "\n  note: signed" not in told


def test_the_check_loads_no_framework_and_needs_no_settings(made: Path) -> None:
    code = (
        "import sys; from handoffaudit.cli.main import command;"
        f"command(['verify-bundle', {str(made)!r}], standalone_mode=False);"
        "assert not {'django', 'psycopg', 'celery'} & set(sys.modules), sorted(sys.modules)"
    )
    env = {"DATABASE_URL": "nothing://", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "intact" in done.stdout) == (0, True), done.stderr
