"""Tests of the changes of every kind of policy on the page of the audit log."""

from dataclasses import replace

from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.policy.kinds import prompts, rules, schemas
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.policy.rules import example_sets
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.validation.prompts.question import Use


def test_saved_rules_schemas_and_prompts_are_told_line_by_line(admin: Person, tenant: Tenant) -> None:
    client = Client()
    client.force_login(admin)
    (signals, _) = example_sets()
    rules.save(tenant=tenant, base_version=0, rows=[signals], actor="ada", note="to begin with")
    first = signals.rules[0].model_copy(update={"threshold": [0.5, 1.0]})
    tighter = signals.model_copy(update={"rules": [first, *signals.rules[1:]]})
    rules.save(tenant=tenant, base_version=1, rows=[tighter], actor="ada")
    row = TypeSchema("deal_data", claim_fields=("thesis",))
    schemas.save(tenant=tenant, base_version=0, rows=[row], actor="ada")
    asked = PromptRow(Use.GROUNDING, "Is every amount in the list? " * 500)
    prompts.save(tenant=tenant, base_version=0, rows=[asked], actor="ada")
    prompts.save(tenant=tenant, base_version=1, rows=[replace(asked, text="Is it so?")], actor="ada")
    page = client.get("/t/acme/settings/audit/")
    assert page.status_code == 200
    for text in ("saved rules", "saved schemas", "to begin with", "rule confidence_range.threshold", "[0.5, 1.0]"):
        assert text in page.text
    assert "claim fields: thesis" in page.text
    assert "row added" in page.text
    assert page.text.count("saved prompts") == 2
    assert "Is it so?</ins>" in page.text
    assert 'href="/t/acme/rules/compare/?from=1&amp;to=2">version 2</a>' in page.text
    assert client.get("/t/acme/rules/compare/?from=1&to=2").status_code == 200
    assert len(page.text) < 26_000
