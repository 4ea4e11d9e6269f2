"""Tests of the words of blocked handoffs: which are indexed, when, for how long, and how a search finds them."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import connection
from django.utils import timezone

from handoffaudit.accounts import tenants
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import retention_targets, tasks, text_index
from handoffaudit.diagnostics.models import BlockedText, Watermark
from handoffaudit.diagnostics.retention_targets import DueRows, Terms
from handoffaudit.handoffs import db, judge, judge_leases, leases
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.legal_holds import NO_HOLDS
from handoffaudit.handoffs.models import Handoff, Verdict, new_id
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.retention import Data, Retention

pytestmark = pytest.mark.django_db

SECRET = "ghp_" + "a1B2c3D4e5" * 4
HOSTILE = [
    "'", '"', '"heron', "heron'", "heron*", "*", "NEAR(heron)", "heron AND", "OR", "NOT heron", "-heron", "heron:*",
    "!heron & |", "(heron", "words:heron", "\\", "%", "heron;--", "héron", "\u202eheron", "🦆",
    "مالك الحزين", "苍鹭苍鹭", "हिन्दी शब्द", "a" * 10_000, "heron " * 2_000, "\ufffd", "ﬁ", "İstanbul",
    "a" + "\u0301\u0323" * 8_000,
]  # fmt: skip


def submit(tenant: Tenant, text: str, *, blocked: bool = True, **data: Any) -> Handoff:
    document = {
        "source_agent_id": "planner",
        "target_agent_id": "writer",
        "tenant_id": tenant.slug,
        "call_chain": ["writer", "planner"] if blocked else ["planner"],
        "handoff_type": "message",
        "data": {"text": text, **data},
    }
    return submit_raw(tenant, document)


def submit_raw(tenant: Tenant, document: Any) -> Handoff:
    (receipt,) = store.accept_batch(tenant, Actor.key("tests"), [orjson.dumps({"document": document})])
    judge.drain()
    return Handoff.objects.get(pk=receipt.id)


def test_a_worker_indexes_blocked_handoffs_after_judging_and_no_others(tenant: Tenant) -> None:
    blocked, accepted = submit(tenant, "The heron nests."), submit(tenant, "The heron flies.", blocked=False)
    assert (blocked.state, accepted.state) == ("rejected", "accepted")
    assert text_index.search(tenant, "heron") == []
    assert text_index.anything_due()
    tasks.index_blocked()
    assert text_index.search(tenant, "heron") == [blocked.pk]
    assert BlockedText.objects.count() == 1
    assert text_index.run() == 0


@pytest.mark.parametrize(
    ("wanted", "finds"),
    [
        ("heron nests", True),
        ("NESTS heron", True),
        ("her", True),
        ("nests her", True),
        ("he", False),
        ("her nests", False),
        ("her ", False),
        ("heron nes heron", False),
        ("heron nid de chouette strasse the nests a1b c3 unknown", False),
        ("heron flies", False),
        ("a1b2", True),
        ("nid chouette", True),
        ("straße", True),
        ("\ue000", False),
    ],
)
def test_a_search_needs_all_words_and_the_beginning_of_the_last(tenant: Tenant, wanted: str, finds: bool) -> None:
    handoff = submit(tenant, "The heron nests; Nid de chouette. STRASSE", **{"a1b2-c3": 1})
    text_index.run()
    assert text_index.search(tenant, wanted) == ([handoff.pk] if finds else [])


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_the_index_or_the_search(tenant: Tenant, text: str) -> None:
    handoff = submit(tenant, f"{text} lapwing")
    text_index.run()
    text_index.search(tenant, text)
    assert handoff.pk in text_index.search(tenant, "lapw") or len(text) > text_index.MOST_TEXT - 500


@pytest.mark.parametrize("text", ["मौसम की जानकारी", "مالك الحزين", "Größe", "苍鹭苍鹭", "e\u0301te\u0301s"])
def test_words_of_any_script_are_found(tenant: Tenant, text: str) -> None:
    handoff = submit(tenant, text)
    text_index.run()
    for word in text.split():
        if len(word) > 2:
            assert text_index.search(tenant, word) == [handoff.pk], word


def test_another_tenant_finds_nothing(tenant: Tenant) -> None:
    other = tenants.create(slug="other", name="Other", actor="tests")
    handoff = submit(tenant, f"heron \ue000{other.pk}")
    text_index.run()
    assert text_index.search(other, "heron") == []
    assert text_index.search(other, f"heron \ue000{other.pk}") == []
    assert text_index.search(tenant, "heron") == [handoff.pk]


def test_secrets_are_not_indexed(tenant: Tenant) -> None:
    long = f"{'word ' * (text_index.MOST_TEXT // 5 - 2)} {SECRET} {'tail ' * 3_000}"
    for number, text in enumerate((f"Use {SECRET} for it.", long)):
        submit(tenant, text, password="swordfish99", number=number)
    text_index.run()
    for row in BlockedText.objects.all():
        assert "a1b2c3d4" not in row.words
        assert "swordfish99" not in row.words
        assert "masked" not in row.words.split()


@pytest.mark.parametrize("more", [1, 20, 5_000])
def test_a_text_above_the_limit_is_indexed_up_to_the_limit(tenant: Tenant, more: int) -> None:
    handoff = submit(tenant, "word " * (text_index.MOST_TEXT // 5 - 40) + "heron " + "tail " * (40 + more))
    text_index.run()
    assert text_index.search(tenant, "heron") == [handoff.pk]


def test_a_document_is_indexed_to_its_limit(tenant: Tenant) -> None:
    submit(tenant, "early " + "word " * 20_000 + "late")
    text_index.run()
    assert len(text_index.search(tenant, "early")) == 1
    assert text_index.search(tenant, "late") == []


@pytest.mark.parametrize(
    "raw", [b'{"broken": heron', b"\xff\xfe heron \x00", b"[" * 3_000 + b' "heron"', b'\xef\xbb\xbf["heron"]']
)
def test_documents_that_are_not_json_are_indexed_as_text(raw: bytes) -> None:
    assert "heron" in text_index.words_of(1, raw).split()


def test_deep_documents_are_indexed_as_text() -> None:
    assert "heron" in text_index.words_of(1, b'["heron", ' + b"[" * 1_000 + b"]" * 1_000 + b"]").split()


def test_removed_documents_leave_the_index(tenant: Tenant) -> None:
    handoff = submit(tenant, "heron")
    text_index.run()
    Handoff.objects.update(state="declined")
    old = uuid.UUID(int=handoff.pk.int - (40 * 86_400_000 << 80))
    for table in ("handoff", "handoffbody"):
        column = "id" if table == "handoff" else "handoff_id"
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE handoffs_{table} SET {column} = %s",  # noqa: S608
                [old if connection.vendor == "postgresql" else old.hex],
            )
    BlockedText.objects.update(handoff=old)
    assert text_index.search(tenant, "heron") == [old]
    terms = Terms(Retention(Data.DOCUMENTS, 30), timezone.now(), NO_HOLDS)
    due = DueRows(tenant, [old], terms)
    assert retention_targets._remove_documents(due) == 1
    assert not BlockedText.objects.exists()
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT count(*) FROM diagnostics_blockedtext_words WHERE words MATCH 'heron'")
            assert cursor.fetchone() == (0,)


def test_an_approved_handoff_is_not_found_until_it_is_blocked_again(tenant: Tenant) -> None:
    handoff = submit(tenant, "heron")
    text_index.run()
    for state, found in (("approved", []), ("superseded", []), ("held", [handoff.pk]), ("declined", [handoff.pk])):
        Handoff.objects.update(state=state)
        assert text_index.search(tenant, "heron") == found


def test_handoffs_of_before_are_indexed_in_parts(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "MOST_VERDICTS", 3)
    monkeypatch.setattr(text_index, "MOST_DOCUMENTS", 2)
    for number in range(8):
        submit(tenant, f"heron number{number}", blocked=number != 4)
    assert text_index.run() == 7
    assert len(text_index.search(tenant, "heron")) == 7
    assert Watermark.objects.get(name=text_index.MARK).at <= timezone.now() - text_index.OVERLAP


def test_a_verdict_that_is_committed_late_is_found(tenant: Tenant) -> None:
    submit(tenant, "egret")
    text_index.run()
    late = submit(tenant, "heron")
    earlier = new_id().int - (60_000 << 80)
    content = Verdict.objects.filter(handoff=late)
    assert content.update(id=uuid.UUID(int=earlier)) == 1
    assert text_index.run() == 1
    assert text_index.search(tenant, "heron") == [late.pk]


def test_a_clock_that_was_ahead_stops_no_run(tenant: Tenant) -> None:
    Watermark.objects.create(name=text_index.MARK, at=timezone.now() + timedelta(days=1))
    handoff = submit(tenant, "heron")
    assert text_index.anything_due()
    assert text_index.run() == 1
    assert text_index.search(tenant, "heron") == [handoff.pk]


def test_a_run_indexes_one_part_while_handoffs_wait(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "MOST_DOCUMENTS", 2)
    for number in range(4):
        submit(tenant, f"heron number{number}")
    monkeypatch.setattr(judge_leases, "is_anything_waiting", lambda: True)
    assert text_index.run() == 2
    # All processes pause, so that judging has the time.
    assert not text_index.anything_due()
    Watermark.objects.filter(name=text_index.LEASE.name).update(at=timezone.now() - timedelta(seconds=1))
    assert text_index.anything_due()


@pytest.mark.parametrize("most_matches", [2, 3_000], ids=["many match", "few match"])
def test_the_newest_are_found_first_and_their_number_is_bounded(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, most_matches: int
) -> None:
    monkeypatch.setattr(text_index, "MOST_MATCHES", most_matches)
    monkeypatch.setattr(text_index, "_AT_ONCE", 2)
    made = [submit(tenant, f"heron number{number}").pk for number in range(5)]
    text_index.run()
    Handoff.objects.filter(pk=made[3]).update(state="approved")
    assert text_index.search(tenant, "heron", most=3) == [made[4], made[2], made[1]]


def test_a_document_that_breaks_the_index_does_not_stop_it(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(tenant, "broken")
    handoff = submit(tenant, "heron")
    whole = text_index.words_of

    def words_of(tenant_id: int, original: bytes) -> str:
        if b"broken" in bytes(original):
            raise ValueError("a bug")
        return whole(tenant_id, original)

    monkeypatch.setattr(text_index, "words_of", words_of)
    assert text_index.run() == 2
    assert text_index.search(tenant, "heron") == [handoff.pk]
    assert text_index.run() == 0


def test_on_sqlite_other_background_work_waits(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    index = text_index._index

    def check(due: Sequence[uuid.UUID]) -> int:
        assert leases._one_part.locked() is not db.is_postgresql()
        return index(due)

    monkeypatch.setattr(text_index, "_index", check)
    submit(tenant, "The heron nests.")
    assert text_index.run() == 1
