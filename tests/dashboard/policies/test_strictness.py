import dataclasses
from typing import Any

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.strictness import to_plain
from handoffaudit.policy.versions import Table
from handoffaudit.validation.config import OPTIONAL_LAYERS, TypePolicy
from tests.pages import only, select, text_of, texts

PAGE = "/t/acme/strictness/"
HTMX = {"HX-Request": "true", "HX-Target": "strictness"}


def row_of(tenant: Tenant, handoff_type: str) -> TypePolicy:
    row = strictness.current(tenant).row(handoff_type)
    assert row is not None
    return row


def form(tenant: Tenant, row: str, base: int, **changed: Any) -> dict[str, Any]:
    """Return the fields that a browser sends for the current row, with some fields changed."""
    plain = to_plain(row_of(tenant, row or "*"))
    layers = [layer for layer, on in plain.pop("layers").items() if on]
    plain = {name: value for name, value in plain.items() if value is not False}
    return {**plain, "handoff_type": row, "layers": layers, "row": row, "base_version": base, "note": ""} | changed


def save_budget(tenant: Tenant, budget: int, actor: str = "bob", handoff_type: str = "deal_data") -> Table[TypePolicy]:
    now = strictness.current(tenant)
    row = dataclasses.replace(row_of(tenant, handoff_type), token_budget=budget)
    return strictness.upsert_row(tenant=tenant, base_version=now.version, row=row, actor=actor)


def test_a_viewer_reads_the_table_and_sees_no_way_to_change_it(as_viewer: Client) -> None:
    page = as_viewer.get(PAGE)
    assert page.status_code == 200
    for text in ("deal_data", "status_update", "any other type", "Default policy"):
        assert text in page.text
    assert texts(page, "th[scope=row]")[-2:] == ["status_update", "any other type"]
    for text in ("Edit", "Add a type"):
        assert text not in page.text
    assert not select(only(as_viewer.get(PAGE, {"edit": "deal_data"}), "main"), "form")


def test_the_models_part_is_folded_and_opens_where_something_is_wrong(as_admin: Client, tenant: Tenant) -> None:
    fold = only(as_admin.get(PAGE, {"edit": "deal_data"}), "details.policy-fold")
    assert "open" not in fold.attributes
    for name in ("fail_mode", "objective_confidence", "critique", "critique_max_usd"):
        assert select(fold, f"[name={name}]")
    refused = as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0, critique_max_usd="10 cents"))
    assert refused.status_code == 400
    fold = only(refused, "details.policy-fold[open]")
    assert "is not a number from 0 to 100" in text_of(fold)
    assert select(fold, '[value="10 cents"]')


@pytest.mark.parametrize("path", ["save/", "delete/", "revert/"])
def test_only_an_administrator_of_this_tenant_changes_it(
    tenant: Tenant, viewer: Person, reviewer: Person, stranger: Person, path: str
) -> None:
    data = form(tenant, "deal_data", 0, token_budget=1, to_version=0)
    for person, status in ((viewer, 403), (reviewer, 403), (stranger, 404), (None, 302)):
        client = Client()
        if person:
            client.force_login(person)
        assert client.post(f"{PAGE}{path}", data).status_code == status
    assert strictness.current(tenant).version == 0


@pytest.mark.parametrize("path", ["", "history/", "compare/?from=0&to=0"])
def test_nobody_else_reads_it(tenant: Tenant, stranger: Person, path: str) -> None:
    client = Client()
    assert client.get(f"{PAGE}{path}").status_code == 302
    client.force_login(stranger)
    assert client.get(f"{PAGE}{path}").status_code == 404


@pytest.mark.parametrize("path", ["save/", "delete/", "revert/"])
def test_changes_are_posts(as_admin: Client, path: str) -> None:
    assert as_admin.get(f"{PAGE}{path}").status_code == 405


def test_without_javascript_a_row_is_edited_on_the_same_page_and_saved(as_admin: Client, tenant: Tenant) -> None:
    page = as_admin.get(PAGE, {"edit": "deal_data"})
    assert 'name="token_budget"' in page.text
    assert 'value="2000"' in page.text
    data = form(tenant, "deal_data", 0, token_budget="3000", layers=["tokens", "chain"], note="long annexes")
    response = as_admin.post(f"{PAGE}save/", data)
    assert response.status_code == 302
    assert "Saved as version 1." in as_admin.get(response.url).text
    row = row_of(tenant, "deal_data")
    assert row.token_budget == 3000
    assert row.layers_off == set(OPTIONAL_LAYERS) - {"tokens", "chain"}
    now = strictness.current(tenant)
    assert (now.changed_by, now.note) == ("admin", "long annexes")


def test_every_field_of_a_row_can_be_edited(as_admin: Client, tenant: Tenant) -> None:
    changed: dict[str, Any] = {
        "strictness": "lenient",
        "mode": "shadow",
        "token_budget": 1,
        "approval_length": 2,
        "recommended_length": 3,
        "circular_policy": "allow",
        "evidence": "required",
        "max_uncited_ratio": 0.25,
        "grounding": "reject",
        "confidence_floor": 0.75,
        "max_retries": 0,
        "max_re_retrievals": 4,
        "min_severity_to_remediate": "warning",
        "hold_limit_hours": 5,
        "fail_mode": "closed",
        "objective_confidence": 0.7,
        "critique": "always",
        "critique_notional_usd": 1_000_000.0,
        "critique_score_floor": 0.25,
        "critique_model": "careful",
        "critique_max_usd": 0.5,
        "critique_threshold": 0.75,
    }
    sent = form(tenant, "deal_data", 0, layers=[]) | changed
    sent.pop("auto_escalate_on_critical")
    page = as_admin.get(PAGE, {"edit": "deal_data"}).text
    assert all(f'name="{name}"' in page for name in (*sent, "auto_escalate_on_critical") if name != "handoff_type")
    assert as_admin.post(f"{PAGE}save/", sent).status_code == 302
    plain = to_plain(row_of(tenant, "deal_data"))
    assert {name: plain[name] for name in changed} == changed
    assert plain["auto_escalate_on_critical"] is False
    assert set(plain["layers"].values()) == {False}
    told = as_admin.get("/t/acme/policies/history/?kind=strictness").text
    for text in ("uncited share", "escalate critical findings", "remediate from", "layer grounding", "where_given"):
        assert text in told
    for text in ("without the LLM", "<del>50,000</del>", "<ins>1,000,000</ins>", "<del>0.10</del>"):
        assert text in told


def test_the_table_tells_what_becomes_of_a_type_without_the_model(as_admin: Client, tenant: Tenant) -> None:
    demands = {"fail_mode": "closed", "objective_confidence": "0.7", "critique": "always"}
    as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0, **demands))
    told = as_admin.get(PAGE).text
    for text in ("if unavailable: hold", "objective: 0.7 sure", "critique: always"):
        assert text in told


def test_lenient_types_are_not_said_to_be_asked_for_sources(as_viewer: Client) -> None:
    page = as_viewer.get(PAGE).text
    assert page.count("not applied to lenient types") == 4
    assert page.count("citations: where given") == 1


def test_a_row_shows_what_differs_from_any_other_type(as_admin: Client, tenant: Tenant) -> None:
    as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0, max_uncited_ratio="0.2"))
    cells = texts(only(as_admin.get(PAGE), "#type-deal_data"), "td[data-label]")
    same = "as any other type"
    assert [cells[2], *cells[4:]] == [same, same, same]
    assert cells[3].startswith("citations: where given")


def test_with_htmx_only_the_table_comes_back(as_admin: Client, tenant: Tenant) -> None:
    part = as_admin.get(PAGE, {"edit": "deal_data"}, headers=HTMX)
    assert part.text.lstrip().startswith('<div id="strictness">')
    assert "<html" not in part.text
    assert {"HX-Request", "HX-Target"} <= {name.strip() for name in part.headers["Vary"].split(",")}
    saved = as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0, token_budget="3000"), headers=HTMX)
    assert saved.status_code == 200
    assert saved.headers["HX-Push-Url"] == PAGE
    assert "Saved as version 1." in saved.text
    assert "3,000" in saved.text
    assert "<html" not in saved.text


# One field of each kind.
SENT_BY_HTMX = ("approval_length", "max_uncited_ratio", "evidence", "fail_mode")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("token_budget", "0", "from 1 to 1,000,000"),
        ("token_budget", "many", "'many' is not a whole number"),
        ("approval_length", "", "is not a whole number"),
        ("confidence_floor", "1.5", "from 0.0 to 1.0"),
        ("max_uncited_ratio", "-0.1", "from 0.0 to 1.0"),
        ("max_retries", "-1", "from 0 to 100"),
        ("max_re_retrievals", "some", "is not a whole number"),
        ("evidence", "", "where_given, required"),
        ("grounding", "on", "off, warn, reject"),
        ("min_severity_to_remediate", "fatal", "info, warning, error, critical"),
        ("confidence_floor", "nan", "from 0.0 to 1.0"),
        ("hold_limit_hours", "9" * 5000, "is not a whole number"),
        ("circular_policy", "ask", "hold, reject, allow"),
        ("mode", "", "enforce, shadow"),
        ("fail_mode", "ajar", "open, closed"),
        ("critique_notional_usd", "50,000", "from 0 to 1,000,000,000,000"),
        ("critique_threshold", "60 %", "from 0.0 to 1.0"),
    ],
)
def test_a_wrong_value_is_told_at_its_field_and_kept(
    as_admin: Client, tenant: Tenant, field: str, value: str, told: str
) -> None:
    data = form(tenant, "deal_data", 0, note="kept") | {field: value}
    response = as_admin.post(f"{PAGE}save/", data, headers=HTMX if field in SENT_BY_HTMX else {})
    assert response.status_code == 400
    assert told in text_of(response, f"#help_{field}")
    assert 'value="kept"' in response.text
    assert strictness.current(tenant).version == 0


def test_a_type_is_added_before_the_last_row(as_admin: Client, tenant: Tenant) -> None:
    assert 'name="handoff_type"' in as_admin.get(PAGE, {"add": "1"}).text
    response = as_admin.post(f"{PAGE}save/", form(tenant, "", 0, handoff_type=" billing/invoice? "))
    assert response.status_code == 302
    assert strictness.current(tenant).rows[0].handoff_type == "billing/invoice?"
    page = as_admin.get(PAGE)
    assert "?edit=billing%2Finvoice%3F" in page.text
    assert 'name="row" value="billing/invoice?"' in as_admin.get(PAGE, {"edit": "billing/invoice?"}).text


@pytest.mark.parametrize(
    ("name", "told"),
    [("deal_data", "The type already has a row"), ("", "needs a handoff type"), ("*", "The type already has a row")],
)
def test_a_type_that_cannot_be_added_is_told_at_its_field(
    as_admin: Client, tenant: Tenant, name: str, told: str
) -> None:
    response = as_admin.post(f"{PAGE}save/", form(tenant, "", 0, handoff_type=name))
    assert response.status_code == 400
    assert told in text_of(response, "#help_handoff_type")
    assert strictness.current(tenant).version == 0


def test_a_type_s_name_is_shown_as_text(as_admin: Client, tenant: Tenant) -> None:
    as_admin.post(f"{PAGE}save/", form(tenant, "", 0, handoff_type="<b>x</b>"))
    assert strictness.current(tenant).row("<b>x</b>") is not None
    for path in ("", "?edit=%3Cb%3Ex%3C/b%3E", "history/"):
        assert "<b>x</b>" not in as_admin.get(f"{PAGE}{path}", follow=True).text


def test_a_row_is_deleted_from_its_editor(as_admin: Client, tenant: Tenant) -> None:
    response = as_admin.post(f"{PAGE}delete/", form(tenant, "notification", 0))
    assert response.status_code == 302
    assert strictness.current(tenant).row("notification") is None
    assert "it follows the row “any other type”" in as_admin.get(PAGE).text


def test_the_last_row_cannot_be_deleted(as_admin: Client, tenant: Tenant) -> None:
    assert "Delete this row" in as_admin.get(PAGE, {"edit": "deal_data"}).text
    assert "Delete this row" not in as_admin.get(PAGE, {"edit": "*"}).text
    response = as_admin.post(f"{PAGE}delete/", form(tenant, "*", 0))
    assert response.status_code == 409
    assert "cannot be deleted" in response.text
    assert strictness.current(tenant).version == 0


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_stale_edit_is_told_with_both_values_and_can_be_made_again(
    as_admin: Client, tenant: Tenant, headers: dict[str, str]
) -> None:
    save_budget(tenant, 5555)
    response = as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0, token_budget="7777"), headers=headers)
    assert response.status_code == 409
    for text in ("bob saved version 1 while you were editing", "5,555", "7,777", "Save mine on version 1"):
        assert text in response.text
    assert 'name="base_version" value="1"' in response.text
    assert 'value="7777"' in response.text
    assert row_of(tenant, "deal_data").token_budget == 5555
    as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 1, token_budget="7777"))
    assert row_of(tenant, "deal_data").token_budget == 7777


def test_an_edit_of_a_row_that_somebody_deleted_is_told(as_admin: Client, tenant: Tenant) -> None:
    data = form(tenant, "notification", 0, token_budget="7777")
    strictness.delete_row(tenant=tenant, base_version=0, name="notification", actor="bob")
    response = as_admin.post(f"{PAGE}save/", data)
    assert response.status_code == 409
    assert "The row notification was deleted" in response.text
    assert "Delete this row" not in response.text
    as_admin.post(f"{PAGE}save/", data | {"base_version": 1})
    assert row_of(tenant, "notification").token_budget == 7777


def test_a_stale_new_row_and_a_stale_deletion_are_told(as_admin: Client, tenant: Tenant) -> None:
    new = form(tenant, "", 0, handoff_type="invoice")
    save_budget(tenant, 5555)
    response = as_admin.post(f"{PAGE}save/", new)
    assert response.status_code == 409
    assert "does not change your new row" in response.text
    assert 'value="invoice"' in response.text
    response = as_admin.post(f"{PAGE}delete/", form(tenant, "notification", 0))
    assert response.status_code == 409
    assert "bob saved version 1 meanwhile" in response.text
    assert strictness.current(tenant).row("notification") is not None


@pytest.mark.parametrize("base", ["", "x", "-1", "9" * 5000])
def test_a_save_without_a_version_is_stale(as_admin: Client, tenant: Tenant, base: str) -> None:
    response = as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0, token_budget="7") | {"base_version": base})
    assert response.status_code == 409
    assert strictness.current(tenant).version == 0


def test_saving_what_is_there_already_makes_no_version(as_admin: Client, tenant: Tenant) -> None:
    response = as_admin.post(f"{PAGE}save/", form(tenant, "deal_data", 0))
    assert "Nothing was changed." in as_admin.get(response.url).text
    assert strictness.current(tenant).version == 0


def test_the_history_tells_who_what_and_why_and_goes_by_pages(as_viewer: Client, tenant: Tenant) -> None:
    row = dataclasses.replace(row_of(tenant, "deal_data"), token_budget=3000, layers_off=frozenset({"chain"}))
    strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="bob", note="long annexes")
    page = as_viewer.get("/t/acme/policies/history/?kind=strictness").text
    for text in ("Version 1", "bob", "long annexes", "token budget", "2,000", "3,000", "layer chain", "default"):
        assert text in text_of(page)
    assert "Go back to version" not in page
    for number in range(25):
        save_budget(tenant, 4000 + number)
    page = as_viewer.get("/t/acme/policies/history/?kind=strictness").text
    assert "Version 26 " in text_of(page)
    assert "Version 6 " not in text_of(page)
    older = only(page, "a[rel=next]").attributes["href"]
    assert "Version 6 " in text_of(as_viewer.get(older))


def test_two_versions_are_compared(as_viewer: Client, tenant: Tenant) -> None:
    save_budget(tenant, 3000)
    save_budget(tenant, 4000)
    page = as_viewer.get(f"{PAGE}compare/", {"from": "0", "to": "2"}).text
    assert "2,000" in page
    assert "4,000" in page
    assert "3,000" not in page
    assert "The two versions are the same" in as_viewer.get(f"{PAGE}compare/", {"from": "1", "to": "1"}).text


@pytest.mark.parametrize(("old", "new"), [("0", "9"), ("x", "0"), ("", ""), ("-1", "0"), ("9" * 5000, "0"), ("²", "0")])
def test_a_version_that_is_not_there_is_not_found(as_viewer: Client, old: str, new: str) -> None:
    assert as_viewer.get(f"{PAGE}compare/", {"from": old, "to": new}).status_code == 404


def test_going_back_adds_a_version(as_admin: Client, tenant: Tenant) -> None:
    save_budget(tenant, 3000)
    response = as_admin.post(f"{PAGE}revert/", {"to_version": "0", "base_version": "1"})
    assert response.status_code == 302
    assert "Back to version 0, saved as version 2." in as_admin.get(response.url).text
    assert row_of(tenant, "deal_data").token_budget == 2000


def test_going_back_is_looked_at_first_and_keeps_why(as_admin: Client, tenant: Tenant) -> None:
    save_budget(tenant, 3000)
    save_budget(tenant, 4000)
    history = as_admin.get("/t/acme/policies/history/?kind=strictness").text
    assert f'href="{PAGE}compare/?from=2&amp;to=1"' in history
    page = as_admin.get(f"{PAGE}compare/", {"from": "2", "to": "1"}).text
    for told in ("What going back changes", "<del>4,000</del>", "<ins>3,000</ins>", "saved as version 3"):
        assert told in page
    as_admin.post(f"{PAGE}revert/", {"to_version": "1", "base_version": "2", "note": "too many passed"})
    assert strictness.current(tenant).note == "Reverted to version 1: too many passed"


@pytest.mark.parametrize(("old", "new"), [("0", "1"), ("1", "2"), ("2", "2")])
def test_only_from_the_version_in_force_one_goes_back(as_admin: Client, tenant: Tenant, old: str, new: str) -> None:
    save_budget(tenant, 3000)
    save_budget(tenant, 4000)
    page = as_admin.get(f"{PAGE}compare/", {"from": old, "to": new}).text
    assert f"{PAGE}revert/" not in page
    assert ("with the one in force" in page) is (new != "2")


def test_going_back_on_an_old_view_is_told(as_admin: Client, tenant: Tenant) -> None:
    save_budget(tenant, 3000)
    save_budget(tenant, 4000)
    response = as_admin.post(f"{PAGE}revert/", {"to_version": "0", "base_version": "1"})
    assert response.status_code == 409
    assert "bob saved version 2 meanwhile" in response.text
    # What going back would change now, and not what it would have.
    assert "<del>4,000</del>" in response.text
    assert row_of(tenant, "deal_data").token_budget == 4000
