"""Tests of muting a rule code from its group and from a finding of a handoff."""

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from tests.diagnostics.groups.support import found, group
from tests.pages import hidden_fields, only, select

pytestmark = pytest.mark.django_db

MUTE, UNMUTE = "/t/acme/groups/codes/mute/", "/t/acme/groups/codes/unmute/"


def test_a_code_is_muted_and_unmuted_from_its_group_and_from_a_finding(
    client: Client, reviewer: Person, viewer: Person, tenant: Tenant
) -> None:
    (handoff,) = found(tenant, 1)
    for address in (f"/t/acme/groups/{group(tenant).pk}/", f"/t/acme/handoffs/{handoff.pk}/?in=handoffs"):
        client.force_login(reviewer)
        form = only(client.get(address), f'form[action="{MUTE}"]')
        fields = dict(hidden_fields(form)) | {"note": "Known finding", "days": "30"}
        done = client.post(MUTE, fields, follow=True)
        assert done.redirect_chain[-1][0] == address
        assert "is muted everywhere until" in done.text
        undo = only(client.get(address), f'form[action="{UNMUTE}"]')
        client.force_login(viewer)
        assert select(client.get(address), f'form[action="{MUTE}"], form[action="{UNMUTE}"]') == []
        client.force_login(reviewer)
        client.post(UNMUTE, dict(hidden_fields(undo)))
        assert group(tenant).muted_at is None


@pytest.mark.parametrize("address", ["//evil.example/", "https://evil.example/t/acme/", "/t/globex/", "", "\x00"])
def test_a_form_returns_only_to_a_page_of_the_tenant(client: Client, reviewer: Person, address: str) -> None:
    client.force_login(reviewer)
    answer = client.post(MUTE, {"code": "x", "next": address})
    assert answer["Location"] == "/t/acme/groups/"
