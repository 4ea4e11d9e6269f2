"""Tests of erasures: where a value is found, what replaces it, and what stays."""

import dataclasses
import json
import uuid
from datetime import timedelta

import orjson
import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from structlog.testing import capture_logs

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import AuditEntry, Person, Tenant
from handoffaudit.diagnostics import attribution, erasure, text_index
from handoffaudit.diagnostics.erasure_text import MARKER, pattern_of, replace
from handoffaudit.diagnostics.models import (
    Attribution,
    CodeMute,
    Erasure,
    ErasureState,
    FindingGroup,
    TracedHandoff,
    Watermark,
)
from handoffaudit.handoffs import judge, judge_leases, legal_holds, queries, repairs
from handoffaudit.handoffs.llm import jobs
from handoffaudit.handoffs.models import (
    CheckKind,
    Event,
    Handoff,
    HandoffBody,
    LateResults,
    PassedOn,
    Proposal,
    ToolResult,
    Verdict,
)
from handoffaudit.handoffs.repair_cases import Case
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy import kinds
from handoffaudit.policy.rules import example_sets
from handoffaudit.validation.repair import Repair
from tests.diagnostics.retention.support import age, keep, run_all
from tests.handoffs.review.support import pass_on
from tests.handoffs.support import circular, interrupted, judged, payload, submit

pytestmark = pytest.mark.django_db
EMAIL = "ada.lovelace@example.com"


@pytest.fixture(autouse=True)
def _static(settings) -> None:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)


def erase(tenant: Tenant, value: str) -> Erasure:
    """Count and erase a value, and return the receipt."""
    one = erasure.request(tenant=tenant, value=value, reason="she asked", actor="ada")
    finish()
    erasure.confirm(tenant=tenant, erasure=one.pk, actor="ada")
    finish()
    one.refresh_from_db()
    return one


def finish() -> None:
    for _ in range(1000):
        if erasure.run(60) and not erasure.anything_due():
            return
    raise AssertionError("it does not end")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (EMAIL, f'{{"to": "{EMAIL.upper()}"}}'),
        ("Ada Lovelace", '"Dear Ada\\nLovelace,"'.replace("\\n", " ")),
        ("Ada Lovelace", '"From:\\nAda Lovelace"'),
        ("Ada Lovelace", "Dear Ada\nLovelace,"),
        ("Ada Lovelace", "Ada\tLovelace"),
        ("Jörg Müller", json.dumps("an Jörg Müller.")),
        ("Jörg Müller", json.dumps(json.dumps("an Jörg Müller."))),
        ("Jörg Müller", '"an J\\u00F6rg M\\u00fcller"'),
        ("JÖRG MÜLLER", json.dumps("jörg müller")),
        ('Ada "The" Lovelace', json.dumps('Ada "The" Lovelace')),
        ("Ada \U0001d4b3 Lovelace", json.dumps("Ada \U0001d4b3 Lovelace")),
        ("Lovelace", "by Lovelace"),
        ("Lovelace", '"by \\u004covelace"'),
        ("\\\\ada\\home", "on \\\\ada\\home"),
        ("\\\\ada\\home", json.dumps("on \\\\ada\\home")),
        ("\\\\ada\\home", json.dumps(json.dumps("on \\\\ada\\home"))),
        ("\\\\ada\\home", '"on \\u005c\\u005cada\\u005Chome"'),
        ('ada\\"\\\u00e9\\/x', json.dumps('an ada\\"\\\u00e9\\/x')),
        ("\\ada", json.dumps("domain\\ada")),
        ("Ada Lovelace", json.dumps("\u201cAda Lovelace\u201d")),
        ("Ada Lovelace", json.dumps(json.dumps("by\u00a0Ada\u00a0Lovelace"))),
        ("Ada Lovelace", json.dumps({"note": "Dear Ada\r\n  Lovelace,"})),
        (EMAIL, json.dumps(f"\U0001f600{EMAIL}")),
    ],
)
def test_a_value_is_found_in_every_form(value: str, text: str) -> None:
    changed = replace(text, pattern_of(value), value.casefold())
    assert MARKER in changed
    assert replace(text.encode(), pattern_of(value), value.casefold()) == changed.encode()
    if text.startswith(('"', "{")):
        assert json.loads(changed)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (EMAIL, f"x{EMAIL}"),
        (EMAIL, f"{EMAIL}x"),
        ("Anna", "Annabel"),
        ("Lovelace", "lovelace"),
        ("Lovelace", "\\u006covelace"),
        ("Brand", json.dumps("Brand\u00e3o")),
        ("Brand", json.dumps("\u00c9Brand")),
        ("Ada L", "Adams L"),
    ],
)
def test_a_part_of_a_word_is_another_value(value: str, text: str) -> None:
    assert replace(text, pattern_of(value), value.casefold()) is text


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    raw = b"\xff\xfe " + EMAIL.encode() + b" \x80"
    assert replace(raw, pattern_of(EMAIL), EMAIL) == b"\xff\xfe " + MARKER.encode() + b" \x80"


@pytest.mark.parametrize(
    ("value", "text", "after"),
    [
        ('Ada"', '{"a": "Ada", "b": "by Ada\\" x"}', '{"a": "Ada", "b": "by [erased] x"}'),
        ('"issues":', '{"issues": [], "b": "\\"issues\\": x"}', '{"issues": [], "b": "[erased] x"}'),
        ("0049151", '{"n": 1.0049151, "b": "0049151"}', '{"n": 1.0049151, "b": "[erased]"}'),
        ("Ada\\", '{"a": "Ada\\" said"}', '{"a": "[erased]"}'),
    ],
)
def test_json_stays_json(value: str, text: str, after: str) -> None:
    assert json.loads(text)
    assert replace(text, pattern_of(value), value.casefold()) == after
    assert replace(text.encode(), pattern_of(value), value.casefold()) == after.encode()


def test_hostile_texts_take_linear_time() -> None:
    """Both sizes are measured in work, not in time: the pattern has no repetition that could go back."""
    pattern = pattern_of("a" * 199 + "B")
    assert replace("a" * 200_000 + "\\", pattern, "a" * 199 + "b").startswith("aaa")
    assert replace("\\" * 200_000, pattern_of('""""'), '""""').startswith("\\")
    for value in ("\\" * 20 + "a", "\\\u00e9" * 20 + "a", '\\"' * 20 + "a"):
        text = value[:-1].replace("\\", "\\" * 20) * 500
        assert replace(text, pattern_of(value), value) is text


def test_a_value_goes_from_everything_that_quotes_it(tenant: Tenant, other_tenant: Tenant) -> None:
    document = circular(data={"contact": EMAIL, "note": f"call {EMAIL.title()} soon"})
    one = judged(tenant, document, context={"asked by": EMAIL}, trace_id="run-42")
    theirs = judged(other_tenant, circular(tenant_id="globex", data={"contact": EMAIL}))
    ToolResult.objects.create(
        tenant=tenant, trace_id="run-42", call_id="c", tool="t", at=timezone.now(), content=json.dumps([EMAIL]), size=1
    )
    activity.add_comment(tenant=tenant, reference=str(one.pk), text=f"ask {EMAIL}", actor=Actor.key("ada"))
    attribution.run()
    text_index.run()
    assert text_index.search(tenant, "lovelace") == [one.pk]
    hash_before = one.content_hash

    done = erase(tenant, EMAIL)

    assert (done.state, done.value, bool(done.finished_at)) == ("done", "", True)
    assert done.found == done.erased
    assert {"documents", "tool_results", "comments"} <= set(done.erased)
    assert done.digest == erasure.digest_of(tenant, EMAIL.upper())
    body = HandoffBody.objects.get(pk=one.pk)
    assert orjson.loads(bytes(body.original))["data"] == {"contact": MARKER, "note": f"call {MARKER} soon"}
    for content in (
        *Verdict.objects.filter(tenant=tenant).values_list("content", flat=True),
        bytes(body.context).decode(),
    ):
        assert EMAIL not in content.lower()
    assert text_index.search(tenant, "lovelace") == []
    assert text_index.search(tenant, "soon") == [one.pk]
    assert EMAIL in bytes(HandoffBody.objects.get(pk=theirs.pk).original).decode()
    assert Handoff.objects.get(pk=one.pk).content_hash == hash_before
    assert queries.current_verdict(one)
    said = Event.objects.filter(handoff=one.pk).order_by("-id")[0].reason
    assert said == f"A value was erased from the document (erasure {done.pk})."
    entries = AuditEntry.objects.filter(tenant=tenant, action__startswith="erasure.")
    assert [entry.action for entry in entries.order_by("number")] == [
        "erasure.request",
        "erasure.confirm",
        "erasure.done",
    ]
    assert EMAIL not in str([entry.detail for entry in entries])
    assert audit.verify(tenant) is None
    again = {"document": document, "context": {"asked by": EMAIL}, "handoff_id": one.handoff_id, "trace_id": "run-42"}
    assert submit(tenant, orjson.dumps(again)).status == 200


def test_a_value_goes_from_the_notes_of_mutes(tenant: Tenant) -> None:
    now = timezone.now()
    CodeMute.objects.create(
        tenant=tenant, code="x", muted_at=now, muted_by="ada", note=f"by {EMAIL}", until=now + timedelta(days=1)
    )
    assert erase(tenant, EMAIL).erased == {"code_mutes": 1}
    assert CodeMute.objects.get().note == f"by {MARKER}"


def test_held_rows_stay_and_the_receipt_says_so(tenant: Tenant) -> None:
    held_one = judged(tenant, payload(data={"contact": EMAIL}))
    free = judged(tenant, payload(data={"contact": EMAIL}, step=2))
    legal_holds.place(tenant=tenant, scope="handoff", key=str(held_one.pk), reason="a case", actor="ada")
    done = erase(tenant, EMAIL)
    assert (done.found["documents"], done.erased["documents"], done.held["documents"]) == (2, 1, 1)
    assert EMAIL in bytes(HandoffBody.objects.get(pk=held_one.pk).original).decode()
    assert EMAIL not in bytes(HandoffBody.objects.get(pk=free.pk).original).decode()
    assert AuditEntry.objects.get(action="erasure.done").detail["held"]["documents"] == 1


def test_names_of_agents_are_counted_and_stay(tenant: Tenant) -> None:
    one = judged(tenant, payload(source_agent_id="Ada Lovelace", call_chain=["Ada Lovelace"]))
    done = erase(tenant, "Ada Lovelace")
    assert (done.found["names"], "names" in done.erased) == (1, False)
    assert Handoff.objects.get(pk=one.pk).source_agent_id == "Ada Lovelace"


def test_a_line_break_of_a_form_counts_as_one_character(tenant: Tenant) -> None:
    reason = "x\r\n" * (erasure.LONGEST_REASON // 2 - 1) + "xx"
    made = erasure.request(tenant=tenant, value=EMAIL, reason=reason, actor="ada")
    assert made.reason == reason.replace("\r", "")


def test_a_count_changes_nothing_and_can_be_cancelled(tenant: Tenant) -> None:
    one = judged(tenant, payload(data={"contact": EMAIL}))
    asked = erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    assert erasure.request(tenant=tenant, value=EMAIL.upper(), reason="again", actor="ada").pk == asked.pk
    # A single word is matched case-sensitively, so each spelling has its own erasure.
    names = ("Lovelace", "LOVELACE", "Lovelace")
    made = [erasure.request(tenant=tenant, value=name, reason="again", actor="ada") for name in names]
    assert (made[0].pk, made[0].value) == (made[2].pk, "Lovelace") != (made[1].pk, made[1].value)
    finish()
    assert EMAIL in bytes(HandoffBody.objects.get(pk=one.pk).original).decode()
    cancelled = erasure.cancel(tenant=tenant, erasure=asked.pk, actor="ada")
    assert (cancelled.state, cancelled.value) == ("cancelled", "")
    with pytest.raises(Refused):
        erasure.confirm(tenant=tenant, erasure=asked.pk, actor="ada")


def test_a_count_that_nobody_confirms_ends(tenant: Tenant) -> None:
    asked = erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    finish()
    Erasure.objects.update(counted_at=timezone.now() - erasure.EXPIRES - timedelta(hours=1))
    assert erasure.anything_due()
    finish()
    asked.refresh_from_db()
    assert (asked.state, asked.value) == ("cancelled", "")


def test_an_erasure_goes_on_where_it_was_left(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(erasure, "TARGETS", [erasure.TARGETS[0]])
    for step in range(45):
        judged(tenant, payload(data={"contact": EMAIL}, step=step + 1))
    erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    runs = 0
    while erasure.anything_due():
        erasure.run(0)
        runs += 1
    assert (Erasure.objects.get().found, runs > 2) == ({"documents": 45}, True)


def test_long_texts_make_small_batches(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite, a batch keeps everybody else from writing, so its rows alone must not decide how long it takes."""
    monkeypatch.setattr(erasure, "TARGETS", [erasure.TARGETS[0]])
    monkeypatch.setattr(erasure, "BATCH_BYTES", 1_500)
    for step in range(6):
        judged(tenant, payload(data={"contact": EMAIL, "text": "x" * 1_000}, step=step + 1))
    erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    found = []
    while erasure.anything_due():
        erasure.run(0)
        found.append(Erasure.objects.get().found.get("documents", 0))
    assert list(dict.fromkeys(found)) == [2, 4, 6]


def test_while_handoffs_wait_there_is_a_pause(tenant: Tenant) -> None:
    erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    submit(tenant, payload())
    assert judge_leases.is_anything_waiting()
    assert erasure.run(60) is True
    assert not erasure.anything_due()


def test_too_many_and_bad_values_are_refused(tenant: Tenant) -> None:
    for bad in ("abc", "x" * 201, "4711", "null", '"text"', "state", "a\0bcd", "a\nbcd", ""):
        with pytest.raises(Refused):
            erasure.request(tenant=tenant, value=bad, reason="x", actor="ada")
    with pytest.raises(Refused):
        erasure.request(tenant=tenant, value=EMAIL, reason=" ", actor="ada")
    with pytest.raises(Refused):
        erasure.request(tenant=tenant, value=EMAIL, reason=f"Request of {EMAIL.title()}", actor="ada")
    for number in range(erasure.MOST_UNFINISHED):
        erasure.request(tenant=tenant, value=f"{number}@example.com", reason="x", actor="ada")
    with pytest.raises(Refused):
        erasure.request(tenant=tenant, value=EMAIL, reason="x", actor="ada")


def test_a_value_that_a_rule_code_has_is_refused(tenant: Tenant) -> None:
    one = example_sets()[0]
    rule = one.rules[0].model_copy(update={"rule_id": "Max_Price"})
    kinds.rules.save(tenant=tenant, base_version=0, rows=[one.model_copy(update={"rules": [rule]})], actor="ada")
    for bad in ("chain.circular", "Chain.Circular", "Max_Price"):
        with pytest.raises(Refused, match="rule code"):
            erasure.request(tenant=tenant, value=bad, reason="x", actor="ada")
    assert erasure.request(tenant=tenant, value="circular@example.com", reason="x", actor="ada")


def erase_now(tenant: Tenant, value: str) -> None:
    """Erase a value without the pauses for handoffs that wait."""
    one = erasure.request(tenant=tenant, value=value, reason="she asked", actor="ada")
    while one.state != ErasureState.DONE:
        Watermark.objects.all().delete()
        erasure.run(60)
        one.refresh_from_db()
        if one.state == ErasureState.COUNTED:
            erasure.confirm(tenant=tenant, erasure=one.pk, actor="ada")


@pytest.mark.parametrize("source", ["document", "tool result"])
def test_a_verdict_made_from_a_value_that_is_erased_meanwhile_is_made_again(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    contact = EMAIL if source == "document" else "nobody"
    receipt = submit(tenant, orjson.dumps(circular(data={"contact": contact})))
    ToolResult.objects.create(
        tenant=tenant, trace_id="run-42", call_id="c", tool="t", at=timezone.now(), content=json.dumps([EMAIL]), size=1
    )
    finish = judge.finish

    def finish_after_erasure(judged: list[JudgedHandoff], lease: judge.WorkLease) -> int:
        monkeypatch.setattr(judge, "finish", finish)
        erase_now(tenant, EMAIL)
        return finish(judged, lease)

    monkeypatch.setattr(judge, "finish", finish_after_erasure)
    lease = judge_leases.take_fresh(10)
    assert lease
    assert judge.judge(lease) == 0
    assert not Verdict.objects.exists()
    assert judge.drain() == 1
    assert EMAIL not in Verdict.objects.get().content
    assert Event.objects.filter(handoff=receipt.id, from_state="received", to_state="validating").count() == 1


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite plans statements in another way")
def test_leases_are_taken_back_without_a_look_at_other_handoffs(tenant: Tenant) -> None:
    handoff = judged(tenant, circular())
    LateResults.objects.create(tenant=tenant, trace_id=handoff.trace_id, since=timezone.now(), claim=uuid.uuid4())
    for pks in ([handoff.pk], None):
        with CaptureQueriesContext(connection) as queried, transaction.atomic():
            judge_leases.revoke_leases(tenant, pks)
        (sql,) = [one["sql"] for one in queried if one["sql"].endswith("FOR UPDATE")]
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "SubPlan" not in plan, plan


def test_an_llm_check_and_a_repair_under_way_are_lost_if_the_document_changes(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    handoff = judged(tenant, circular(data={"contact": EMAIL}))
    jobs.enqueue([handoff], CheckKind.RECHECK)
    job = jobs.take()
    assert job
    make = repairs.make_candidates

    def make_and_erase(case: Case) -> Repair:
        made = make(case)
        erase_now(tenant, EMAIL)
        return made

    monkeypatch.setattr(repairs, "make_candidates", make_and_erase)
    with pytest.raises(repairs.NotRepairable, match="changed while"):
        repairs.repair_stored(handoff=handoff, actor=Actor.key("ada"))
    with transaction.atomic():
        assert not jobs.lock_if_held(job)
    assert jobs.take()


def test_the_page_counts_confirms_and_shows_the_receipt(client: Client, admin: Person, tenant: Tenant) -> None:
    client.force_login(admin)
    judged(tenant, payload(data={"contact": EMAIL}))
    page = "/t/acme/settings/retention/erasures/"
    assert "No erasures yet." in client.get(page).text
    assert client.post(f"{page}request/", {"value": "4711", "reason": "x"}).status_code == 400
    client.post(f"{page}request/", {"value": EMAIL, "reason": "she asked"})
    finish()
    shown = client.get(page).text
    assert "Waits for your confirmation" in shown
    assert EMAIL in shown
    [one] = Erasure.objects.all()
    client.post(f"{page}{one.pk}/confirm/")
    finish()
    shown = client.get(page).text
    assert f"Receipt {one.digest[:16]}" in shown
    assert EMAIL not in shown
    assert client.post(f"{page}{uuid.uuid4()}/confirm/").status_code == 404


def test_the_page_of_holds_places_and_lifts(client: Client, admin: Person, tenant: Tenant) -> None:
    client.force_login(admin)
    one = judged(tenant, payload())
    page = "/t/acme/settings/retention/holds/"
    wrong = client.post(f"{page}place/", {"scope": "handoff", "key": "nothing", "reason": "x"})
    assert (wrong.status_code, "There is no handoff" in wrong.text) == (400, True)
    client.post(f"{page}place/", {"scope": "handoff", "key": one.handoff_id, "reason": "Case 117"})
    shown = client.get(page).text
    assert "Case 117" in shown
    [hold] = legal_holds.list_holds(tenant)
    client.post(f"{page}{hold.pk}/lift/", {"reason": ""})
    assert legal_holds.of_handoff(one) is not None
    client.post(f"{page}{hold.pk}/lift/", {"reason": "closed"})
    assert legal_holds.of_handoff(one) is None


def test_the_note_of_a_replaced_proposal_is_erased(tenant: Tenant) -> None:
    """Otherwise the value would come back when the newer proposal is withdrawn."""
    handoff = judged(tenant, circular())
    Proposal.objects.create(
        handoff=handoff,
        tenant=tenant,
        decision="approve",
        note="It is fine.",
        actor_kind="person",
        actor="rui",
        version=handoff.version,
        at=timezone.now(),
        replaced={"decision": "decline", "note": f"{EMAIL} said no.", "actor": "sana"},
    )
    assert erase(tenant, EMAIL).erased == {"proposals": 1}
    assert Proposal.objects.get().replaced == {"decision": "decline", "note": f"{MARKER} said no.", "actor": "sana"}


def test_the_note_of_a_replaced_assignment_is_erased(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, circular())
    pass_on(handoff, reviewer, to=admin, note=f"Ask {EMAIL}.")
    pass_on(handoff, admin, to=reviewer, note="Yours.")
    erase(tenant, EMAIL)
    replaced = PassedOn.objects.get().replaced
    assert replaced is not None
    assert replaced["note"] == f"Ask {MARKER}."


def test_an_erasure_that_fails_does_not_stop_the_others(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = erasure.request(tenant=tenant, value="Charles Babbage", reason="he asked", actor="ada")
    other = erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    work = erasure._work

    def fail(one: Erasure) -> None:
        if one.pk == broken.pk:
            raise RuntimeError("This is a bug.")
        work(one)

    monkeypatch.setattr(erasure, "_work", fail)
    assert erasure.run(60)
    other.refresh_from_db()
    broken.refresh_from_db()
    assert (other.state, broken.state) == ("counted", "counting")
    assert not erasure.anything_due(), "the broken one is tried again after a pause"


def test_words_that_are_erased_while_they_are_indexed_stay_erased(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(tenant, circular(data={"note": "Write to Zebedee"}))
    read = text_index.words_or_none

    def erase_meanwhile(*document) -> str:
        monkeypatch.setattr(text_index, "words_or_none", read)
        words = read(*document)
        erase(tenant, "Zebedee")
        return words

    monkeypatch.setattr(text_index, "words_or_none", erase_meanwhile)
    assert text_index.run() == 1
    assert text_index.search(tenant, "zebedee") == []
    assert len(text_index.search(tenant, "erased")) == 1


@pytest.mark.parametrize("before", [0, 1])
def test_values_that_are_erased_while_they_are_attributed_stay_erased(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    document = circular(handoff_type="research_result", data={"summary": "Write to Zebedee Quux."})
    judged(tenant, document, context={"prompt": "Costs were 3 million."})
    if before:
        attribution.run()
        assert Attribution.objects.filter(value__contains="Zebedee").exists()
        Attribution.objects.update(value="Zebedee Quux was read by an older version")
        TracedHandoff.objects.update(verdict=None)
    load = attribution._load_flaws

    def erase_meanwhile(rows):
        monkeypatch.setattr(attribution, "_load_flaws", load)
        flaws = load(rows)
        assert any("Zebedee" in flaw.value for of_handoff in flaws.values() for flaw in of_handoff)
        erase(tenant, "Zebedee Quux")
        return flaws

    monkeypatch.setattr(attribution, "_load_flaws", erase_meanwhile)
    attribution.run()
    attribution.run()
    assert not attribution.anything_due()
    assert Attribution.objects.filter(value__contains=MARKER).exists()
    assert not Attribution.objects.filter(value__contains="Zebedee").exists()


def test_the_places_of_finding_groups_lose_the_value(tenant: Tenant) -> None:
    document = payload(data={"Ada Lovelace": "It costs 999 EUR."})
    judged(tenant, document, context={"prompt": "It costs 240 EUR."})
    attribution.run()
    (group,) = FindingGroup.objects.filter(path_shape__contains="Ada Lovelace")
    receipt = erase(tenant, "Ada Lovelace")
    assert receipt.erased["group_mutes"] == 1
    erased = FindingGroup.objects.get(pk=group.pk)
    assert (erased.path_shape, erased.key) == (group.path_shape.replace("Ada Lovelace", MARKER), group.key)
    # A later handoff with the same finding joins the group.
    judged(tenant, document, context={"prompt": "It costs 240 EUR."})
    attribution.run()
    assert not FindingGroup.objects.filter(path_shape__contains="Ada Lovelace").exists()
    assert FindingGroup.objects.get(pk=group.pk).number == 2


@pytest.mark.django_db(transaction=True)
def test_an_erasure_and_a_retention_run_do_not_lock_each_other_out(tenant: Tenant) -> None:
    keep(tenant, documents=30)
    for _ in range(2):
        age(judged(tenant, payload(data={"summary": EMAIL, "suppliers": 3})))
    one = erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    finish()
    erasure.confirm(tenant=tenant, erasure=one.pk, actor="ada")
    with capture_logs() as logs:
        answers = interrupted(finish, run_all, 'FROM "handoffs_handoffbody"')
    assert answers == [None, None]
    assert [entry for entry in logs if entry["log_level"] in ("error", "warning")] == []
    assert not HandoffBody.objects.filter(original__contains=EMAIL.encode()).exists()


@pytest.mark.django_db(transaction=True)
def test_an_erasure_goes_on_after_documents_that_a_retention_run_removes_meanwhile(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, *others = erasure.TARGETS
    monkeypatch.setattr(erasure, "TARGETS", (dataclasses.replace(documents, batch=2), *others))
    keep(tenant, documents=30)
    for days in (40, 40, 1, 1):
        age(judged(tenant, payload(data={"summary": EMAIL, "suppliers": 3})), days)
    one = erasure.request(tenant=tenant, value=EMAIL, reason="she asked", actor="ada")
    finish()
    erasure.confirm(tenant=tenant, erasure=one.pk, actor="ada")
    assert interrupted(run_all, finish, 'DELETE FROM "handoffs_handoffbody"') == [None, None]
    one.refresh_from_db()
    assert one.state == ErasureState.DONE
    assert [EMAIL in bytes(body.original).decode() for body in HandoffBody.objects.all()] == [False, False]
