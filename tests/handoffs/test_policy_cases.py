"""Tests of cases: what is kept stays the same, and a result names the difference and what would make the case pass."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics import erasure
from handoffaudit.handoffs import policy_cases
from handoffaudit.handoffs.case_results import CaseResult
from handoffaudit.handoffs.models import Handoff, HandoffBody, PolicyCase
from handoffaudit.handoffs.policy_cases import CaseFields, CasePolicy
from handoffaudit.policy import policy_set
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.strictness import to_plain
from tests.handoffs.support import NOT_JSON, circular, held, judged, payload, set_policy, submit

pytestmark = pytest.mark.django_db


def keep(tenant: Tenant, handoff: Handoff, expected: str, **more: Any) -> PolicyCase:
    return policy_cases.keep(tenant=tenant, reference=str(handoff.pk), expected=expected, actor="ada", **more)


def result_of(tenant: Tenant, case: PolicyCase, **changes: object) -> CaseResult:
    """Return the result of a case with the shipped row of its type, changed."""
    rows = [to_plain(row) for row in strictness.as_shipped.rows]
    rows = [row | changes if row["handoff_type"] == "research_result" else row for row in rows]
    return policy_cases.judge_case(case, CasePolicy.of_tenant(tenant, policy_set.parse({"strictness": rows})))


def test_a_case_names_what_differs_and_what_would_make_it_pass(tenant: Tenant) -> None:
    good = keep(tenant, judged(tenant, payload(handoff_id="good")), "accepted", must_not_have=["tokens.over_budget"])
    assert result_of(tenant, good).status == "passed"
    failed = result_of(tenant, good, token_budget=10)
    assert (failed.status, failed.outcome) == ("failed", "rejected")
    assert failed.differs == [
        "The handoff is rejected, and should be accepted.",
        "tokens.over_budget is found, and must not be.",
    ]
    assert failed.fixes[0] == (
        "The policy for research_result must let the handoff pass. These findings block it: "
        "tokens.over_budget (layer tokens)."
    )
    loop = keep(tenant, judged(tenant, circular(handoff_id="loop")), "rejected", must_have=["chain.circular"])
    assert result_of(tenant, loop).status == "passed"
    layers = next(to_plain(row)["layers"] for row in strictness.as_shipped.rows)
    off = result_of(tenant, loop, strictness="lenient", layers=layers | {"chain": False})
    assert off.status == "failed"
    assert off.fixes[1] == "The layer chain did not check research_result: switched off for this type."


def test_a_missing_code_names_the_layer_that_reports_it(tenant: Tenant) -> None:
    handoff = judged(tenant, payload(handoff_id="good"))
    case = keep(tenant, handoff, "accepted", must_have=["schema.enum", "integrity.size_mismatch", "files.strict"])
    layers = next(to_plain(row)["layers"] for row in strictness.as_shipped.rows)
    assert result_of(tenant, case, layers=layers | {"rules": False, "consistency": False}).fixes == [
        "The layer structure must report schema.enum for research_result: add or change the schema of the type.",
        "The layer consistency did not check research_result: switched off for this type.",
        "The layer structure must report files.strict for research_result: change its rules or limits.",
    ]


def test_shadow_mode_does_not_break_a_case_and_is_noted(tenant: Tenant) -> None:
    case = keep(tenant, judged(tenant, circular()), "rejected")
    result = result_of(tenant, case, mode="shadow")
    assert (result.status, result.outcome) == ("passed", "rejected")
    assert any("shadow mode" in note for note in result.notes)


def test_a_case_that_only_the_llm_could_fulfil_is_not_called_failed(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    case = keep(tenant, handoff, "rejected", must_have=["semantic.fabricated"])
    result = result_of(tenant, case)
    assert result.status == "needs_llm"
    assert "The LLM was not asked (semantic" in result.notes[0]
    assert result_of(tenant, case, strictness="lenient").status == "failed"
    other = keep(tenant, handoff, "rejected", must_have=["chain.circular"])
    assert result_of(tenant, other).status == "failed"
    waiting = keep(tenant, judged(tenant, held(handoff_id="held")), "rejected")
    assert (result_of(tenant, waiting).outcome, result_of(tenant, waiting).status) == ("held", "needs_llm")


def test_a_case_stays_the_same_when_the_handoff_and_its_trace_change(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="first", source_agent_id="writer", target_agent_id="researcher"), trace_id="t")
    document = payload(handoff_id="second", call_chain=[], target_agent_id="writer")
    handoff = judged(tenant, document, trace_id="t", context={"n": 1e22}, reason="why", step=3)
    HandoffBody.objects.filter(pk=handoff.pk).update(context=b'{"n": 1180591620717411303424}')
    before = result_of(tenant, keep(tenant, handoff, "accepted"))
    case = PolicyCase.objects.get()
    assert str(2**70) in case.beside
    assert {"trace_id", "reason", "step", "handoff_id"} <= orjson.loads(case.beside).keys()
    assert handoff.codes
    HandoffBody.objects.update(original=b"{}")
    Handoff.objects.all().delete()
    again = result_of(tenant, case)
    assert (again.codes, again.outcome) == (before.codes, before.outcome)
    assert set(handoff.codes) <= set(again.codes)


def test_a_case_keeps_the_step_zero(tenant: Tenant) -> None:
    case = keep(tenant, judged(tenant, payload(), step=0), "accepted")
    assert orjson.loads(case.beside)["step"] == 0
    assert "adapt" not in case.beside


def test_what_cannot_be_read_is_a_case_too(tenant: Tenant) -> None:
    receipt = submit(tenant, NOT_JSON + b"\xff")
    case = policy_cases.keep(tenant=tenant, reference=receipt.id, expected="rejected", actor="ada")
    plain = policy_cases.to_plain(case)
    assert "document_base64" in plain
    read = CaseFields.model_validate(plain).to_case()
    assert bytes(read.document) == bytes(case.document)
    assert policy_cases.judge_case(read, CasePolicy.of_file({})).status == "passed"


def test_a_case_survives_export_and_is_judged_without_a_database(
    tenant: Tenant, django_assert_num_queries: Any
) -> None:
    case = keep(tenant, judged(tenant, held(), trace_id="t"), "held", note="Long chains wait.")
    read = CaseFields.model_validate(orjson.loads(orjson.dumps(policy_cases.to_plain(case)))).to_case()
    with django_assert_num_queries(0):
        result = policy_cases.judge_case(read, CasePolicy.of_file({}))
    assert (result.status, result.id) == ("passed", "")
    assert policy_cases.to_plain(read) == policy_cases.to_plain(case)


@pytest.mark.parametrize(
    "change",
    [
        {"document": None},
        {"document_base64": "e30="},
        {"document": None, "document_base64": "!"},
        {"expected": "fine"},
        {"beside": "[]"},
        {"beside": '{"document": {}}'},
        {"beside": '{"step": "x"}'},
        {"beside": "{} {}"},
        {"basis": '{"nothing": 1}'},
        {"basis": "[" * 2000},
        {"must_have": ["a.b"] * 21},
        {"must_have": ["x y"]},
        {"must_have": ["a.b"], "must_not_have": ["a.b"]},
        {"received_at": "2026-02-15T00:15:00"},
        {"received_at": "0001-01-01T00:00:00+14:00"},
        {"received_at": "9999-12-31T23:59:59-10:00"},
        {"received_at": "0001-01-01T00:00:00Z"},
        {"note": "\0"},
        {"more": 1},
    ],
)
def test_a_hostile_case_is_refused(change: dict[str, Any], tenant: Tenant) -> None:
    plain = policy_cases.to_plain(keep(tenant, judged(tenant, payload()), "accepted"))
    with pytest.raises(ValidationError):
        CaseFields.model_validate(plain | change)


def test_keeping_is_bounded_and_recorded(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    handoff = judged(tenant, payload())
    for wrong in ({"expected": "approved"}, {"must_have": ["no.such_code"]}, {"note": "\0"}, {"must_have": ["x"] * 21}):
        with pytest.raises(Refused):
            keep(tenant, handoff, **{"expected": "accepted"} | wrong)
    with pytest.raises(Refused, match="both lists"):
        keep(tenant, handoff, "accepted", must_have=["chain.circular"], must_not_have=["chain.circular"])
    monkeypatch.setattr(policy_cases, "MOST_CASES", 1)
    case = keep(tenant, handoff, "accepted")
    assert (case.result["status"], PolicyCase.objects.get().result) == ("passed", case.result)
    with pytest.raises(Refused, match="at most 1 cases"):
        keep(tenant, handoff, "accepted")
    policy_cases.remove(tenant=tenant, case=case.pk, actor="ada")
    monkeypatch.setattr(policy_cases, "LARGEST", 10)
    with pytest.raises(Refused, match="at most 10"):
        keep(tenant, handoff, "accepted")
    HandoffBody.objects.all().delete()
    with pytest.raises(Refused, match="was removed"):
        keep(tenant, handoff, "accepted")
    actions = list(AuditEntry.objects.filter(tenant=tenant, action__startswith="case").values_list("action", flat=True))
    assert actions == ["case.keep", "case.remove"]


def test_cases_belong_to_their_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    case = keep(tenant, handoff, "accepted")
    with pytest.raises(Handoff.DoesNotExist):
        keep(other_tenant, handoff, "accepted")
    with pytest.raises(PolicyCase.DoesNotExist):
        policy_cases.remove(tenant=other_tenant, case=case.pk, actor="eve")
    assert not policy_cases.list_cases(other_tenant).exists()


def test_the_time_of_a_page_is_bounded(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    for _ in range(3):
        keep(tenant, handoff, "accepted")
    set_policy(tenant, "research_result", token_budget=10)
    cases = policy_cases.list_cases(tenant)
    assert len(policy_cases.judge_stored(tenant, cases, seconds=0)) == 1
    assert len(policy_cases.judge_stored(tenant, cases, seconds=60)) == 3
    assert {one.result["status"] for one in policy_cases.list_cases(tenant)} == {"failed"}


def test_an_erasure_reaches_the_copy(tenant: Tenant) -> None:
    data = {"summary": "Ask ada.lovelace@example.com.", "suppliers": 3}
    case = keep(tenant, judged(tenant, payload(data=data)), "accepted", note="From ada.lovelace@example.com")
    asked = erasure.request(tenant=tenant, value="ada.lovelace@example.com", reason="asked", actor="root")
    while not erasure.run(5):
        pass
    erasure.confirm(tenant=tenant, erasure=asked.pk, actor="root")
    while not erasure.run(5):
        pass
    asked.refresh_from_db()
    assert (asked.state, asked.erased["cases"]) == ("done", 1)
    case.refresh_from_db()
    assert b"lovelace" not in bytes(case.document)
    assert case.note == "From [erased]"
    assert result_of(tenant, case).outcome
