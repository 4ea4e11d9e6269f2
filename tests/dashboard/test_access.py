from collections.abc import Callable

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff
from tests.pages import only, text_of

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
READ = ["/t/acme/", "/t/acme/handoffs/", "/t/acme/review/", "/t/acme/review/next/"]


@pytest.mark.parametrize("address", READ)
def test_nobody_reads_without_signing_in(client: Client, tenant: Tenant, address: str) -> None:
    answer = client.get(address)
    assert (answer.status_code, answer["Location"]) == (302, f"/sign-in/?next={address}")


@pytest.mark.parametrize("address", READ)
def test_a_stranger_finds_nothing(sign_in: SignIn, stranger: Person, tenant: Tenant, address: str) -> None:
    page = sign_in(stranger).get(address)
    assert page.status_code == 404
    assert "There is no such page" in page.text
    assert "Acme" not in page.text


def test_a_missing_handoff_and_one_of_another_tenant_are_explained_alike(
    sign_in: SignIn, viewer: Person, stranger: Person, submit_to: Submit, other_tenant: Tenant
) -> None:
    pages = []
    for pk in (str(submit_to(other_tenant).pk), "00000000-0000-0000-0000-000000000000", "0b5c-mistyped"):
        page = sign_in(viewer).get(f"/t/acme/handoffs/{pk}/")
        assert page.status_code == 404
        assert "retention may have deleted it" in text_of(page)
        search = only(page, "form[aria-label='Search for the handoff']")
        assert search.attributes["action"] == "/t/acme/search/"
        assert only(search, "input").attributes["value"] == pk
        pages.append(text_of(only(page, "main")).replace(pk, "id"))
    assert len(set(pages)) == 1
    hidden = sign_in(stranger).get("/t/acme/handoffs/00000000-0000-0000-0000-000000000000/")
    assert "There is no such page" in hidden.text


@pytest.mark.parametrize("address", ["/t/acme/review/several/run/", "/t/acme/handoffs/{pk}/decide/"])
def test_a_viewer_decides_nothing(sign_in: SignIn, viewer: Person, held: Handoff, address: str) -> None:
    sent = {"decision": "approve", "version": held.version, "select": f"{held.pk}:{held.version}"}
    page = sign_in(viewer).post(address.format(pk=held.pk), sent)
    assert page.status_code == 403
    assert "This needs the role reviewer; yours is viewer." in page.text
    assert Handoff.objects.get(pk=held.pk).state == "held"


@pytest.mark.parametrize("address", ["/t/acme/review/several/run/", "/t/acme/handoffs/{pk}/decide/", "/t/acme/theme/"])
def test_what_changes_something_is_no_link(sign_in: SignIn, reviewer: Person, held: Handoff, address: str) -> None:
    assert sign_in(reviewer).get(address.format(pk=held.pk)).status_code == 405


def test_a_decision_from_another_site_is_refused(reviewer: Person, held: Handoff) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(reviewer)
    sent = {"decision": "approve", "version": held.version}
    assert client.post(f"/t/acme/handoffs/{held.pk}/decide/", sent).status_code == 403
    assert Handoff.objects.get(pk=held.pk).state == "held"


def test_htmx_is_told_to_load_the_page_again_when_the_session_has_ended(client: Client, tenant: Tenant) -> None:
    answer = client.get("/t/acme/handoffs/", headers={"HX-Request": "true", "HX-Target": "results"})
    assert answer["HX-Refresh"] == "true"
    assert "Acme" not in answer.text


def test_pages_are_kept_by_no_cache(sign_in: SignIn, viewer: Person) -> None:
    assert "no-store" in sign_in(viewer).get("/t/acme/")["Cache-Control"]


def test_a_name_that_it_does_not_answer_to_is_told_with_the_remedy(client: Client) -> None:
    answer = client.get("/", headers={"host": "audit.example.com"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "text/plain; charset=utf-8")
    assert "'audit.example.com'. Its operator adds the name to HANDOFFAUDIT_ALLOWED_HOSTS" in answer.text
