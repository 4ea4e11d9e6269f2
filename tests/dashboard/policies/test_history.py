"""Tests of the history of policies: all kinds in one list, the filter, pages, and former addresses."""

import pytest
from django.test import Client

from handoffaudit.accounts.models import Tenant
from handoffaudit.policy import kinds
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.prompts import PromptRow, Use
from tests.pages import only, text_of, texts

HISTORY = "/t/acme/policies/history/"


def save(tenant: Tenant, kind: str) -> None:
    """Save one more version of a kind."""
    if kind == "prompts":
        versions, rows = kinds.prompts, [PromptRow(Use.CRITIQUE, f"Look at it {PolicyVersion.objects.count()} times.")]
    else:
        versions = kinds.schemas
        rows = versions.parse([{"handoff_type": f"t{PolicyVersion.objects.count()}", "claim_fields": ["thesis"]}])
    base = versions.current(tenant).version
    versions.save(tenant=tenant, base_version=base, rows=rows, actor="bob", note=f"because of {kind}")


def heads(client: Client, **query: str) -> list[str]:
    return texts(client.get(HISTORY, query), ".policy-history h2")


def test_versions_of_all_kinds_are_one_list_newest_first(
    as_viewer: Client, tenant: Tenant, other_tenant: Tenant
) -> None:
    assert "No policy was changed yet" in text_of(as_viewer.get(HISTORY))
    for kind in ("prompts", "schemas", "prompts"):
        save(tenant, kind)
    save(other_tenant, "schemas")
    saved = ["Prompts Version 2 in force", "Schemas Version 1 in force", "Prompts Version 1"]
    assert heads(as_viewer) == [*saved, "Schemas Version 0", "Prompts Version 0"]
    assert heads(as_viewer, kind="schemas") == ["Schemas Version 1 in force", "Schemas Version 0"]
    shown = as_viewer.get(HISTORY).text
    assert "/t/acme/prompts/compare/?from=2&amp;to=1" in shown
    assert "because of schemas" in shown
    assert as_viewer.get(HISTORY, {"kind": "none"}).status_code == 404


def test_a_page_ends_and_the_next_one_goes_on(as_viewer: Client, tenant: Tenant) -> None:
    for number in range(25):
        save(tenant, "prompts" if number % 3 else "schemas")
    newest, link = heads(as_viewer), only(as_viewer.get(HISTORY), "a[rel=next]")
    before = str(link.attributes["href"]).rpartition("=")[2]
    older = heads(as_viewer, before=before)
    assert (len(newest), len(older)) == (20, 7)
    assert len({head.removesuffix(" in force") for head in newest + older}) == 27


@pytest.mark.parametrize("kind", Kind.values)
def test_former_addresses_lead_to_their_kind(as_viewer: Client, kind: str) -> None:
    former = {"agents": "declared", "handoff_files": "diagnostics/files/policy"}.get(kind, kind)
    response = as_viewer.get(f"/t/acme/{former}/history/")
    assert (response.status_code, response["Location"]) == (302, f"{HISTORY}?kind={kind}")
    assert as_viewer.get(response["Location"]).status_code == 200
