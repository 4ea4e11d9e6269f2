"""Tests of storing submissions as rows."""

from collections.abc import Callable
from uuid import UUID

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import Receipt, read_submission
from handoffaudit.handoffs.models import Event, Finding, Handoff, HandoffBody, State, Verdict
from tests.handoffs.support import NOT_JSON, SENDER, assert_counts_are_right, payload, submit

pytestmark = pytest.mark.django_db
BOM = b"\xef\xbb\xbf"


def batch(tenant: Tenant, *items: object) -> list[Receipt]:
    sent = [item if isinstance(item, bytes) else orjson.dumps(item) for item in items]
    return store.accept_batch(tenant, SENDER, sent)


def test_a_submission_becomes_a_handoff_a_body_and_an_event(tenant: Tenant) -> None:
    receipt = submit(
        tenant,
        payload(handoff_id="h"),
        trace_id="t",
        parent_handoff_id="p",
        step=3,
        context={"q": 1},
        evidence=[{"s": 1}],
    )
    assert (receipt.status, receipt.handoff_id, receipt.state) == (202, "h", State.RECEIVED)
    handoff = Handoff.objects.get()
    assert str(handoff.pk) == receipt.id
    stored = {
        "format": "payload",
        "handoff_type": "research_result",
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "trace_id": "t",
        "parent_handoff_id": "p",
        "step": 3,
        "state": State.RECEIVED,
        "chain_length": 2,
        "size_bytes": len(orjson.dumps(payload(handoff_id="h"))),
    }
    assert {name: getattr(handoff, name) for name in stored} == stored
    body = HandoffBody.objects.get()
    assert [bytes(body.context), bytes(body.evidence)] == [b'{"q":1}', b'[{"s":1}]']
    event = Event.objects.get()
    assert (event.from_state, event.to_state, event.actor_kind, event.actor) == ("", "received", "key", "sender")


@pytest.mark.parametrize(
    "original",
    [
        orjson.dumps(payload()).replace(b":", b" :\t").replace(b",", b" ,\r\n"),
        BOM + orjson.dumps(payload()),
        NOT_JSON,
        b"\xff\xfe\x00",
        b" ",
        '{"é": "\\u00e9"}'.encode("latin-1"),
    ],
)
def test_the_bytes_are_kept_as_they_came(tenant: Tenant, original: bytes) -> None:
    one = submit(tenant, original)
    (many,) = batch(tenant, original)
    for receipt in (one, many):
        assert bytes(HandoffBody.objects.get(pk=receipt.id).original) == original


def test_a_document_without_an_id_gets_one_of_its_own_each_time(tenant: Tenant) -> None:
    receipts = [submit(tenant, payload()), *batch(tenant, payload(), payload())]
    assert [receipt.status for receipt in receipts] == [202, 202, 202]
    assert len({receipt.handoff_id for receipt in receipts}) == 3
    assert all(receipt.handoff_id == receipt.id for receipt in receipts)


def test_the_envelope_names_a_document_that_has_no_name(tenant: Tenant) -> None:
    assert submit(tenant, payload(), handoff_id="mine").handoff_id == "mine"
    assert submit(tenant, payload(handoff_id="own"), handoff_id="mine").handoff_id == "own"


def test_an_id_that_had_to_be_cut_names_nothing(tenant: Tenant) -> None:
    first, second = (submit(tenant, payload(handoff_id="x" * 300 + end)) for end in "ab")
    assert (first.status, second.status) == (202, 202)
    assert first.handoff_id != second.handoff_id


def test_the_same_content_again_is_answered_as_before(tenant: Tenant) -> None:
    first = submit(tenant, payload(handoff_id="h", data={"a": 1, "b": [2]}), step=1)
    respaced = b'{"step":1, "document": ' + orjson.dumps(
        dict(reversed(payload(handoff_id="h", data={"b": [2], "a": 1}).items())), option=orjson.OPT_INDENT_2
    )
    again = submit(tenant, respaced + b"}")
    assert (again.status, again.id, again.state) == (200, first.id, State.RECEIVED)
    assert Handoff.objects.count() == Event.objects.count() == HandoffBody.objects.count() == 1


@pytest.mark.parametrize(
    "other",
    [
        {"step": 2},
        {"trace_id": "t"},
        {"parent_handoff_id": "p"},
        {"retry_of": "r"},
        {"context": {"a": 1}},
        {"evidence": [1]},
    ],
)
def test_an_id_with_other_content_or_envelope_is_a_conflict(tenant: Tenant, other: dict[str, object]) -> None:
    first = submit(tenant, payload(handoff_id="h"))
    clash = submit(tenant, payload(handoff_id="h"), **other)
    assert (clash.status, clash.id) == (409, first.id)
    assert "'h'" in clash.detail
    assert Handoff.objects.count() == 1


@pytest.mark.parametrize("spell", [str, str.upper, "{{{}}}".format, "urn:uuid:{}".format])
def test_no_document_hides_behind_the_servers_id_of_another(
    tenant: Tenant, other_tenant: Tenant, spell: Callable[[str], str]
) -> None:
    """Otherwise, who asks for the document by its id would get the state and the approval of the other document."""
    first = submit(tenant, payload(handoff_id="h"))
    name = spell(first.id)
    for clash in (
        submit(tenant, payload(handoff_id=name)),
        store.accept_batch(tenant, SENDER, [orjson.dumps(payload(handoff_id=name))])[0],
    ):
        assert (clash.status, clash.id, clash.title) == (409, first.id, "The id is taken")
    assert Handoff.objects.count() == 1
    assert submit(other_tenant, payload(handoff_id=name, tenant_id="globex")).status == 202


def test_the_servers_id_of_a_document_without_an_id_names_this_document(tenant: Tenant) -> None:
    first = submit(tenant, payload())
    again = submit(tenant, payload(handoff_id=first.id))
    assert (first.handoff_id, again.id) == (first.id, first.id)


@pytest.mark.parametrize("field", ["data", "context"])
def test_documents_that_differ_in_the_digits_of_a_long_integer_are_not_the_same(tenant: Tenant, field: str) -> None:
    amount = payload(handoff_id="h", data={"wei": 0}), {"wei": 0}
    sent = orjson.dumps({"document": amount[0], "context": amount[1]})
    place = sent.rindex(b'"wei":0') if field == "context" else sent.index(b'"wei":0')
    first, other = (sent[: place + 6] + b"10000000000000000000%d" % end + sent[place + 7 :] for end in (1, 2))
    assert [store.accept(tenant, SENDER, read_submission(one)).status for one in (first, first, other)] == [
        202,
        200,
        409,
    ]
    store.accept(tenant, SENDER, read_submission(other.replace(b'"h"', b'"h2"')))
    hashes = set(Handoff.objects.values_list("data_hash", flat=True))
    assert len(hashes) == (2 if field == "data" else 1)


def test_the_same_id_in_another_tenant_is_another_handoff(tenant: Tenant, other_tenant: Tenant) -> None:
    assert submit(tenant, payload(handoff_id="h")).status == 202
    assert submit(other_tenant, payload(handoff_id="h", tenant_id="globex")).status == 202


def test_a_document_that_names_another_tenant_is_refused_and_not_kept(tenant: Tenant, other_tenant: Tenant) -> None:
    receipts = [submit(tenant, payload(tenant_id="globex")), *batch(tenant, payload(tenant_id="globex"))]
    assert [receipt.status for receipt in receipts] == [403, 403]
    assert "'globex'" in receipts[0].detail
    assert "'acme'" in receipts[0].detail
    assert not Handoff.objects.exists()


def test_within_a_batch_repeats_and_conflicts_are_found_too(tenant: Tenant) -> None:
    receipts = batch(tenant, payload(handoff_id="h"), payload(handoff_id="h"), payload(handoff_id="h", data={"n": 2}))
    assert [receipt.status for receipt in receipts] == [202, 200, 409]
    assert len({receipt.id for receipt in receipts}) == 1


def test_one_bad_item_spoils_no_other_and_answers_keep_their_order(tenant: Tenant) -> None:
    batch(tenant, payload(handoff_id="known"))
    receipts = batch(
        tenant,
        payload(handoff_id="a"),
        NOT_JSON,
        payload(handoff_id="known"),
        payload(handoff_id="b", tenant_id="globex"),
        payload(handoff_id="known", data={}),
        b'{"document": {}, "colour": 1}',
        payload(handoff_id="c"),
    )
    assert [receipt.status for receipt in receipts] == [202, 422, 200, 403, 409, 422, 202]
    assert [receipt.handoff_id for receipt in receipts if receipt.status == 202] == ["a", "c"]
    assert_counts_are_right()


def test_a_malformed_document_is_kept_as_a_finding_of_its_sender(tenant: Tenant) -> None:
    receipt = submit(tenant, NOT_JSON)
    assert (receipt.status, receipt.state) == (422, State.REJECTED)
    (issue,) = receipt.issues
    assert issue.code == "structure.json_parse"
    handoff = Handoff.objects.get()
    assert (handoff.state, handoff.score, handoff.codes) == (State.REJECTED, 0.0, ["structure.json_parse"])
    assert handoff.judged_at is not None
    event = Event.objects.get()
    assert (event.from_state, event.to_state, event.actor) == ("", "rejected", "sender")
    assert Finding.objects.get().code == "structure.json_parse"
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    assert verdict["validation_id"] == str(Verdict.objects.get().pk)
    assert verdict["issues"][0]["metadata"]["line"] == 1
    assert_counts_are_right()


def test_a_broken_envelope_is_kept_with_the_place_of_what_is_wrong(tenant: Tenant) -> None:
    receipt = submit(tenant, payload(), colour="red")
    assert receipt.status == 422
    handoff = Handoff.objects.get()
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    assert (verdict["issues"][0]["code"], verdict["issues"][0]["json_pointer"]) == (
        "structure.unknown_field",
        "/colour",
    )
    assert orjson.loads(bytes(queries.body(handoff).original))["colour"] == "red"


@pytest.mark.parametrize("document", [b"[]", b"null", b"3", b"{}", b'{"x": 1}'])
def test_what_fits_no_format_is_kept_and_says_so(tenant: Tenant, document: bytes) -> None:
    receipt = submit(tenant, document)
    assert (receipt.status, receipt.issues[0].layer) == (422, "structure")
    assert Handoff.objects.get().state == State.REJECTED


def test_the_same_malformed_document_under_one_name_is_kept_once(tenant: Tenant) -> None:
    first, again, other = (submit(tenant, raw, handoff_id="h") for raw in (b"[1]", b"[1]", b"[2]"))
    assert [first.status, again.status, other.status] == [422, 200, 422]
    assert first.id == again.id != other.id
    assert queries.get(tenant, "h").pk == UUID(other.id)


def test_what_is_over_the_size_limit_with_all_that_belongs_to_it_is_refused(tenant: Tenant, settings) -> None:
    settings.MAX_BODY_BYTES = 1000
    large = {"text": "x" * 900}
    receipts = batch(
        tenant,
        payload(data=large),
        {"document": payload(), "context": large},
        {"document": payload(), "evidence": [large]},
        payload(),
    )
    assert [receipt.status for receipt in receipts] == [413, 413, 413, 202]
    assert "1,000" in receipts[0].detail
    assert Handoff.objects.count() == 1


def test_a_batch_with_an_unreadable_document_and_its_correction_can_be_sent_again(tenant: Tenant) -> None:
    items = [{"document": [], "handoff_id": "h"}, {"document": payload(), "handoff_id": "h"}]
    unreadable, corrected = batch(tenant, *items)
    assert [unreadable.status, corrected.status] == [422, 202]
    assert [(receipt.status, receipt.id) for receipt in batch(tenant, *items)] == [
        (409, corrected.id),
        (200, corrected.id),
    ]
    assert Handoff.objects.count() == 2
    assert_counts_are_right()


def test_ids_grow_in_the_order_of_a_batch(tenant: Tenant) -> None:
    receipts = batch(tenant, *(payload(handoff_id=name) for name in "zmabyc"))
    assert [receipt.id for receipt in receipts] == sorted(receipt.id for receipt in receipts)


def test_an_unknown_declared_format_is_named_with_those_there_are(tenant: Tenant) -> None:
    receipt = store.accept(tenant, SENDER, read_submission(orjson.dumps(payload()), "paylod"))
    assert receipt.status == 422
    assert "payload" in receipt.issues[0].hint


def test_a_document_whose_format_was_misspelt_can_be_sent_again(tenant: Tenant) -> None:
    document = orjson.dumps(payload(handoff_id="h"), option=orjson.OPT_SORT_KEYS)
    sent = [(document, name) for name in ("paylod", "paylod", "payload", "payload")]
    receipts = [store.accept(tenant, SENDER, read_submission(raw, name, "h")) for raw, name in sent]
    assert [receipt.status for receipt in receipts] == [422, 200, 202, 200]
    assert receipts[0].id == receipts[1].id != receipts[2].id == receipts[3].id


def test_signs_that_no_database_keeps_are_no_obstacle(tenant: Tenant) -> None:
    nul = payload(handoff_id="a\0b", source_agent_id="x\0", data={"t\0": "\0"}, handoff_type="\0")
    receipts = [submit(tenant, nul), submit(tenant, orjson.dumps(payload()).replace(b"writer", b"\\ud800"))]
    assert [receipt.status for receipt in receipts] == [202, 422]


def test_an_id_that_retention_frees_during_a_submission_is_taken(tenant: Tenant, monkeypatch) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(store, "is_plain", lambda handoff: True)
    monkeypatch.setattr(store, "_insert_one", lambda *new: next(answers))
    monkeypatch.setattr(store._plain_writes, "add", lambda new: next(answers))
    assert submit(tenant, payload(handoff_id="h")).status == 202
    assert not list(answers)
