"""Tests of the pages of cases: the form on a handoff's page, the list, and the cases of a dry run."""

import json

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import dry_runs, legal_holds, policy_cases
from handoffaudit.handoffs.models import Handoff, PolicyCase
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.models import Kind
from handoffaudit.policy.strictness import to_plain
from tests.handoffs.support import circular, judged, payload
from tests.pages import texts

pytestmark = pytest.mark.django_db


@pytest.fixture
def loop(tenant: Tenant) -> Handoff:
    return judged(tenant, circular(handoff_id="loop"))


def test_a_reviewer_keeps_tests_and_removes_a_case(client: Client, reviewer: Person, loop: Handoff) -> None:
    client.force_login(reviewer)
    address = f"/t/acme/handoffs/{loop.pk}/"
    assert texts(client.get(address), "#case-expected option[selected]") == ["rejected"]
    given = {"expected": "rejected", "must_have": "chain.circular\r\n", "must_not_have": "", "note": "<b>No loops.</b>"}
    page = client.post(f"{address}case/", given, follow=True)
    assert "Kept as a case. It passes with the policies in force." in page.text
    page = client.get("/t/acme/cases/")
    assert texts(page, ".card-head .tag") == ["passed"]
    assert "&lt;b&gt;No loops.&lt;/b&gt;" in page.text
    assert "Tested 1 case with" in client.post("/t/acme/cases/test/", follow=True).text
    page = client.post(f"/t/acme/cases/{PolicyCase.objects.get().pk}/remove/", follow=True)
    assert "Removed the case loop." in page.text
    assert not PolicyCase.objects.exists()


def test_a_refused_form_keeps_its_input(client: Client, reviewer: Person, loop: Handoff) -> None:
    client.force_login(reviewer)
    given = {"expected": "held", "must_have": "no.such", "note": "Look here."}
    page = client.post(f"/t/acme/handoffs/{loop.pk}/case/", given)
    assert page.status_code == 400
    assert "not a rule code" in texts(page, "#case-error")[0]
    assert texts(page, "#case-must") == ["no.such"]
    assert texts(page, "#case-expected option[selected]") == ["held"]
    assert 'value="Look here."' in page.text
    assert not PolicyCase.objects.exists()


def test_a_viewer_sees_cases_and_no_form(client: Client, viewer: Person, tenant: Tenant, loop: Handoff) -> None:
    policy_cases.keep(tenant=tenant, reference="loop", expected="accepted", actor="ada")
    client.force_login(viewer)
    assert texts(client.get(f"/t/acme/handoffs/{loop.pk}/"), "#case") == []
    page = client.get("/t/acme/cases/")
    assert texts(page, ".card-head .tag") == ["failed"]
    assert "To pass: The policy for" in page.text
    assert texts(page, "main form") == []


def test_a_dry_run_names_the_cases_that_would_break(client: Client, admin: Person, tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="good"))
    for expected in ("accepted", "rejected"):
        policy_cases.keep(tenant=tenant, reference="good", expected=expected, actor="ada")
    Handoff.objects.all().delete()
    rows = [to_plain(row) | {"token_budget": 10} for row in strictness.as_shipped.rows]
    trial = dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content={"rows": rows}, base_version=0, actor="ada")
    client.force_login(admin)
    assert "0 of 2 tested" in client.get(f"/t/acme/trials/{trial.pk}/").text
    assert dry_runs.run_waiting() == 1
    page = client.get(f"/t/acme/trials/{trial.pk}/")
    assert "1 case would fail" in " ".join(page.text.split())
    assert "passes now" in page.text
    assert "Save this draft" in page.text
    assert client.post(f"/t/acme/trials/{trial.pk}/save/").status_code == 302


def test_an_editor_says_how_many_cases_would_fail(client: Client, admin: Person, tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="good"))
    for expected in ("accepted", "rejected"):
        policy_cases.keep(tenant=tenant, reference="good", expected=expected, actor="ada")
    client.force_login(admin)
    page = client.get("/t/acme/strictness/?edit=research_result")
    assert texts(page, ".policy-cases") == ["Changes are tested with the kept cases."]
    (row,) = (to_plain(row) for row in strictness.as_shipped.rows if row.handoff_type == "research_result")
    layers = [layer for layer, on in row.pop("layers").items() if on]
    row = {name: value for name, value in row.items() if value is not False}
    form = row | {"row": "research_result", "layers": layers, "base_version": "0", "token_budget": "10"}
    said = "Kept cases of the changed types: 1 of 2"
    assert f"{said} would fail." in client.post("/t/acme/strictness/cases/", form).text
    assert strictness.current(tenant).version == 0
    refused = client.post("/t/acme/strictness/cases/", form | {"token_budget": "none"})
    assert "tested when the draft has no errors" in refused.text
    other = client.post("/t/acme/schemas/cases/", {"handoff_type": "other", "claim_fields": "x", "base_version": "0"})
    assert "no kept case of the changed types" in other.text
    page = client.post("/t/acme/strictness/save/", form, follow=True)
    assert f"Saved as version 1. {said} fails now." in " ".join(page.text.split())
    assert texts(page, ".note--warning a[href='/t/acme/cases/']") == ["See the cases"]
    assert sorted(case.result["status"] for case in PolicyCase.objects.all()) == ["failed", "passed"]
    page = client.post("/t/acme/strictness/delete/", {"row": "research_result", "base_version": "1"}, follow=True)
    assert "Version 2. Kept cases: none of 2 fails now." in " ".join(page.text.split())


def test_cases_that_fail_are_listed_first(client: Client, viewer: Person, tenant: Tenant, loop: Handoff) -> None:
    for expected in ("accepted", "rejected"):
        policy_cases.keep(tenant=tenant, reference="loop", expected=expected, actor="ada")
    client.force_login(viewer)
    assert texts(client.get("/t/acme/cases/"), ".card-head .tag") == ["failed", "passed"]


def test_a_case_under_a_legal_hold_stays(client: Client, reviewer: Person, tenant: Tenant) -> None:
    handoff = judged(tenant, circular(handoff_id="loop"), trace_id="t")
    case = policy_cases.keep(tenant=tenant, reference="loop", expected="rejected", actor="ada")
    client.force_login(reviewer)
    for scope, key in (("handoff", str(handoff.pk)), ("trace", "t"), ("tenant", "")):
        hold = legal_holds.place(tenant=tenant, scope=scope, key=key, reason="A court asks.", actor="ada")
        page = client.post(f"/t/acme/cases/{case.pk}/remove/", follow=True)
        assert "Not removed. The handoff of this case is under a legal hold" in page.text
        legal_holds.lift(tenant=tenant, hold=hold.pk, reason="It is over.", actor="ada")
    client.post(f"/t/acme/cases/{case.pk}/remove/")
    assert not PolicyCase.objects.exists()


def test_a_change_of_rules_is_tested_with_cases_whose_data_names_the_type(
    client: Client, admin: Person, tenant: Tenant
) -> None:
    handoff = judged(tenant, payload(data={"_output_type": "Offer", "price": 12}, handoff_id="offer"))
    assert handoff.handoff_type != "Offer"
    policy_cases.keep(tenant=tenant, reference="offer", expected="accepted", actor="ada")
    client.force_login(admin)
    rule = {"rule_id": "low", "name": "Low", "rule_type": "range", "field": "price", "operator": "lt", "threshold": 5}
    sets = [{"set_id": "offers", "name": "Offers", "rules": [rule | {"output_types": ["Offer"]}]}]
    form = {"editor": "json", "base_version": "0", "text": json.dumps(sets)}
    assert "Kept cases: 1 of 1 would fail." in client.post("/t/acme/rules/cases/", form).text
    page = client.post("/t/acme/rules/save/", form, follow=True)
    assert "Saved as version 1. Kept cases: 1 of 1 fails now." in " ".join(page.text.split())
    assert PolicyCase.objects.get().result["status"] == "failed"
