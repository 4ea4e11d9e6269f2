"""Tests of the search box, which finds ids and names."""

from collections.abc import Callable

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
LIST = "/t/acme/handoffs/"


def found(client: Client, text: str):
    return client.get(f"{LIST}find/", {"q": text})


def test_an_id_leads_to_its_handoff(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    client = sign_in(viewer)
    for text in (str(held.pk), held.handoff_id, f"  {held.pk} "):
        assert found(client, text)["Location"] == f"{LIST}{held.pk}/"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("planner", "source=planner"),
        ("PLANNER", "source=planner"),
        ("writ", "target=writer"),
        ("message", "type=message"),
        ("work-7", "trace=work-7"),
        ("chain.circular", "code=chain.circular"),
        ("circular chain", "code=chain.circular"),
    ],
)
def test_a_name_narrows_the_list(
    sign_in: SignIn, viewer: Person, submit: Submit, circular: Handoff, text: str, query: str
) -> None:
    Handoff.objects.filter(pk=submit().pk).update(trace_id="work-7")
    assert found(sign_in(viewer), text)["Location"] == f"{LIST}?{query}"


def test_of_several_one_is_chosen(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    submit()
    submit(source_agent_id="planner-2", call_chain=["planner-2"], target_agent_id="planner")
    page = found(sign_in(viewer), "plan")
    assert page.status_code == 200
    for query in ("source=planner", "source=planner-2", "target=planner"):
        assert f'href="{LIST}?{query}"' in page.text


@pytest.mark.parametrize("text", ["nothing is named so", "<b>x</b>", "\x00qqq", "x" * 5000])
def test_nothing_found_is_told(sign_in: SignIn, viewer: Person, held: Handoff, text: str) -> None:
    page = found(sign_in(viewer), text)
    assert "Nothing is named so" in page.text
    assert "<b>x</b>" not in page.text


def test_nothing_asked_is_the_list(sign_in: SignIn, viewer: Person, held: Handoff) -> None:
    assert found(sign_in(viewer), " ")["Location"] == LIST


def test_what_is_another_tenants_is_not_found(
    sign_in: SignIn, viewer: Person, other_tenant: Tenant, submit_to: Submit
) -> None:
    foreign = submit_to(other_tenant, source_agent_id="spy", call_chain=["spy"])
    for text in (str(foreign.pk), foreign.handoff_id, "spy"):
        assert found(sign_in(viewer), text).status_code == 200
