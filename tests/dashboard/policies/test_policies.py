"""Tests of dry runs from the editors: started, watched while they run, saved, and returned to the editor."""

import dataclasses
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.policies.dry_runs import PAGES
from handoffaudit.handoffs import dry_runs, stats
from handoffaudit.handoffs.models import Handoff, Trial
from handoffaudit.policy.kinds import rules, schemas, strictness
from handoffaudit.policy.models import Kind
from handoffaudit.policy.rules import example_sets
from handoffaudit.policy.strictness import to_plain
from tests.pages import links, only, select, text_of

HTMX = {"HX-Request": "true"}
RULE: dict[str, Any] = {
    "editor": "rule",
    "set": "signal_validation_v1",
    "rule": "",
    "rule_id": "text_wanted",
    "name": "There is a title",
    "rule_type": "required",
    "field": "title",
    "operator": "",
    "threshold": "",
    "compare_field": "",
    "severity": "error",
    "output_types": "message",
    "enabled": "on",
    "base_version": 1,
    "note": "titles help",
}
SCHEMA = {"row": "", "handoff_type": "message", "schema": '{"required": ["title"]}', "base_version": 0, "note": ""}


def strictness_form(tenant: Tenant, row: str, **changed: Any) -> dict[str, Any]:
    policy = strictness.current(tenant).row(row or "*")
    assert policy is not None
    # as browsers do, which send nothing for an empty box
    plain = {name: value for name, value in to_plain(policy).items() if value is not False}
    layers = [layer for layer, on in plain.pop("layers").items() if on]
    return {**plain, "handoff_type": row, "layers": layers, "row": row, "base_version": 0, "note": "why"} | changed


def start(client: Client, kind: str, data: dict[str, Any]) -> Trial:
    response = client.post(f"/t/acme/{kind}/try/", data)
    assert response.status_code == 302, response.text
    trial = Trial.objects.get()
    assert response.url == f"/t/acme/trials/{trial.pk}/"
    return trial


def with_signals(tenant: Tenant) -> None:
    rules.save(tenant=tenant, base_version=0, rows=example_sets()[:1], actor="ada")


@pytest.mark.parametrize("kind", ["strictness", "rules", "schemas", "prompts"])
def test_the_menu_marks_policies_for_a_dry_run(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], kind: str
) -> None:
    handoff = submit()
    versions = PAGES[kind].versions
    unchanged = versions.to_plain(versions.current(tenant).rows)
    trial = dry_runs.start(tenant=tenant, kind=Kind(kind), content=unchanged, base_version=0, actor="ada")
    for address in (f"/t/acme/trials/{trial.pk}/", f"/t/acme/trials/{trial.pk}/{handoff.pk}/"):
        page = as_admin.get(address)
        assert links(page, 'nav[aria-label="Pages"] a[aria-current=page]') == ["/t/acme/strictness/"]


@pytest.mark.parametrize("kind", ["strictness", "rules", "schemas"])
def test_a_draft_is_tried_from_its_editor_and_then_saved(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], kind: str
) -> None:
    with_signals(tenant)
    handoff = submit()
    submit(data={"text": "Three sources agree.", "title": "Dates"})
    submit(handoff_type="deal_data")
    forms = {"rules": RULE, "schemas": SCHEMA, "strictness": strictness_form(tenant, "message")}
    forms["strictness"]["token_budget"] = 1
    trial = start(as_admin, kind, forms[kind] | {"tried": "50"})
    assert (trial.handoff_types, trial.most, trial.total) == (["message"], 50, 2)
    address = f"/t/acme/trials/{trial.pk}/"
    page = as_admin.get(address).text
    assert select(page, 'progress[max="2"][value="0"]')
    assert 'hx-trigger="every 1s"' in page
    assert "the last 50 handoffs of message" in page
    dry_runs.run_waiting()
    page = as_admin.get(address).text
    assert "every 1s" not in page
    number = 2 if kind == "strictness" else 1
    assert f"<b>{number} verdict{'s' if number > 1 else ''}</b> would change" in page
    assert f"/t/acme/handoffs/{handoff.pk}/" in page
    assert handoff.handoff_id in page
    code = {"rules": "business_rule.required", "schemas": "schema.required", "strictness": "tokens.over_budget"}[kind]
    assert code in page
    versions = {"rules": rules, "schemas": schemas, "strictness": strictness}[kind]
    before = versions.current(tenant).version
    assert as_admin.post(f"{address}save/").status_code == 302
    now = versions.current(tenant)
    assert (now.version, now.changed_by) == (before + 1, "admin")
    assert now.note == forms[kind]["note"]
    page = as_admin.get(address).text
    assert f"Active version: {now.version}, saved by admin" in page
    assert "Save this draft" not in page


@pytest.mark.parametrize("kind", ["strictness", "rules", "schemas"])
def test_back_to_editing_finds_everything_that_was_typed(as_admin: Client, tenant: Tenant, kind: str) -> None:
    with_signals(tenant)
    forms = {
        "rules": RULE | {"description": "odd & kept", "tried": "7d", "types": "all"},
        "schemas": SCHEMA | {"schema": '{"required":   ["title"]}', "note": "odd & kept", "tried": "7d"},
        "strictness": strictness_form(tenant, "deal_data", token_budget="777", note="odd & kept", tried="7d"),
    }
    trial = start(as_admin, kind, forms[kind])
    assert trial.since is not None
    back = f"/t/acme/{kind}/?trial={trial.pk}"
    assert f'href="{back}"' in as_admin.get(f"/t/acme/trials/{trial.pk}/").text
    page = as_admin.get(back).text
    typed = {"rules": "text_wanted", "schemas": "&quot;required&quot;:   [", "strictness": 'value="777"'}[kind]
    for text in (typed, "odd &amp; kept", '<option value="7d" selected>'):
        assert text in page
    for other in {"strictness", "rules", "schemas"} - {kind}:
        assert as_admin.get(f"/t/acme/{other}/", {"trial": str(trial.pk)}).status_code == 404
    assert as_admin.get(f"/t/acme/{kind}/", {"trial": "nonsense"}).status_code == 404


@pytest.mark.parametrize(
    ("tried", "most", "days"), [("1000", 1000, None), ("24h", 5000, 1), ("30d", 5000, 30), ("nonsense", 200, None)]
)
def test_on_how_many_it_is_tried(as_admin: Client, tenant: Tenant, tried: str, most: int, days: int | None) -> None:
    trial = start(as_admin, "schemas", SCHEMA | {"tried": tried})
    assert trial.most == most
    if days is None:
        assert trial.since is None
    else:
        assert trial.since is not None
        assert abs(timezone.now() - timedelta(days=days) - trial.since) < timedelta(minutes=1)


def test_the_last_row_is_tried_on_types_without_a_row(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "MENU_LENGTH", 1)
    submit(handoff_type="deal_data")
    submit(handoff_type="memo")
    trial = start(as_admin, "strictness", strictness_form(tenant, "*", token_budget=1))
    assert (trial.handoff_types, trial.total) == (["*"], 1)
    assert "handoffs of any other type" in as_admin.get(f"/t/acme/trials/{trial.pk}/").text


def test_where_all_types_have_rows_the_last_row_is_tried_on_none(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    submit(handoff_type="deal_data")
    assert start(as_admin, "strictness", strictness_form(tenant, "*", token_budget=1)).total == 0


@pytest.mark.parametrize(
    ("changed", "types"),
    [({}, ["message"]), ({"output_types": ""}, []), ({"types": "all"}, []), ({"output_types": "b\na"}, ["a", "b"])],
)
def test_rules_are_tried_on_the_types_they_are_for(
    as_admin: Client, tenant: Tenant, changed: dict[str, str], types: list[str]
) -> None:
    with_signals(tenant)
    assert start(as_admin, "rules", RULE | changed).handoff_types == types


def test_a_rule_that_changes_its_types_is_tried_on_both(as_admin: Client, tenant: Tenant) -> None:
    with_signals(tenant)
    trial = start(as_admin, "rules", RULE | {"rule": "confidence_range", "output_types": "message"})
    assert trial.handoff_types == ["Signal", "message"]


def test_no_handoff_says_what_to_do(as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]) -> None:
    with_signals(tenant)
    trial = start(as_admin, "rules", RULE)
    address = f"/t/acme/trials/{trial.pk}/"
    page = as_admin.get(address).text
    assert "none has been judged yet in Acme" in page
    assert "<progress" not in page
    submit(handoff_type="other")
    page = as_admin.get(address).text
    assert "none of message has been judged yet. Types that have come are other." in page
    assert "or to judge all types" in page
    Trial.objects.all().delete()
    trial = start(as_admin, "rules", RULE | {"tried": "24h"})
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/").text
    assert "none of message arrived in that time. Go back to editing and choose a longer time, or all types" in text_of(
        page
    )


def test_what_could_not_be_saved_is_not_tried_and_told_in_the_editor(as_admin: Client, tenant: Tenant) -> None:
    for kind, data, told in (
        ("schemas", SCHEMA | {"schema": "{"}, "line 1, column"),
        ("strictness", strictness_form(tenant, "deal_data", token_budget="0"), "from 1 to 1,000,000"),
        ("strictness", strictness_form(tenant, "deal_data"), "The draft equals the policy in force."),
        ("rules", {"editor": "json", "text": "[", "base_version": 0}, "line 1, column"),
    ):
        response = as_admin.post(f"/t/acme/{kind}/try/", data)
        assert response.status_code == 400
        assert told in response.text
    assert not Trial.objects.exists()


def test_a_draft_on_an_old_version_is_not_tried(as_admin: Client, tenant: Tenant) -> None:
    row = strictness.current(tenant).row("deal_data")
    assert row is not None
    theirs = dataclasses.replace(row, token_budget=5555)
    strictness.upsert_row(tenant=tenant, base_version=0, row=theirs, actor="bob")
    response = as_admin.post("/t/acme/strictness/try/", strictness_form(tenant, "deal_data", token_budget=7777))
    assert response.status_code == 409
    for text in ("bob saved version 1 while you were editing", "5,555", "7,777"):
        assert text in response.text
    assert not Trial.objects.exists()


def test_a_draft_that_was_overtaken_is_not_saved(as_admin: Client, tenant: Tenant) -> None:
    trial = start(as_admin, "schemas", SCHEMA)
    (theirs,) = schemas.from_plain({"rows": [{"handoff_type": "other", "claim_fields": []}]})
    schemas.save(tenant=tenant, base_version=0, rows=[theirs], actor="bob")
    address = f"/t/acme/trials/{trial.pk}/"
    page = as_admin.get(address).text
    assert "bob saved version 1 after this dry run began" in page
    assert "Save this draft" not in page
    assert as_admin.post(f"{address}save/").status_code == 409
    assert schemas.current(tenant).rows == (theirs,)


def test_with_htmx_a_trial_opens_its_page_and_then_sends_only_its_part(as_admin: Client, tenant: Tenant) -> None:
    response = as_admin.post("/t/acme/schemas/try/", SCHEMA, headers=HTMX | {"HX-Target": "schemas"})
    trial = Trial.objects.get()
    assert response.headers["HX-Redirect"] == f"/t/acme/trials/{trial.pk}/"
    part = as_admin.get(response.headers["HX-Redirect"], headers=HTMX | {"HX-Target": "trial"}).text
    assert part.lstrip().startswith('<div id="trial"')
    assert "<html" not in part


def test_the_end_of_a_trial_is_told_to_who_waits_for_it_and_does_not_look(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    submit()
    address = f"/t/acme/trials/{start(as_admin, 'schemas', SCHEMA).pk}/"
    told = "1 of 1 verdicts would change."
    waiting = as_admin.get(address, headers=HTMX | {"HX-Target": "trial"}).text
    assert "live-told" not in waiting
    dry_runs.run_waiting()
    over = as_admin.get(address, headers=HTMX | {"HX-Target": "trial"}).text
    assert told in text_of(over, "#live-told")
    assert told not in as_admin.get(address).text


def test_what_a_page_shows_is_bounded_and_text(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    submit()
    trial = start(as_admin, "schemas", SCHEMA)
    row = {"handoff": str(uuid.uuid4()), "handoff_id": "<b>" + "x" * 500, "before": "accepted", "after": "rejected"}
    Trial.objects.update(
        changed=[row | {"codes": ["schema.required"] * 5}] * dry_runs.MOST_SHOWN,
        flips={"accepted>rejected": 4000, "rejected>accepted": 1, "held>accepted": 2},
        judged=5000,
        total=5000,
        handoff_types=[f"<i>{number}" + "t" * 190 for number in range(200)],
        finished_at=timezone.now(),
    )
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/").text
    assert "the newest 200 of 4,003" in page
    assert "997 would not" in page
    assert "and 192 more types" in page
    for sign in ("<b>x", "<i>0", "x" * 90, "t" * 90):
        assert sign not in page


def test_errors_and_workers_that_do_not_come_are_told(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff]
) -> None:
    submit()
    trial = start(as_admin, "schemas", SCHEMA)
    address = f"/t/acme/trials/{trial.pk}/"
    assert "No worker has started yet" not in as_admin.get(address).text
    Trial.objects.update(started_at=timezone.now() - timedelta(seconds=20))
    assert "No worker has started yet" in as_admin.get(address).text
    Trial.objects.update(finished_at=timezone.now(), error="The dry run failed. The worker's log says why.")
    page = as_admin.get(address).text
    assert "The dry run failed." in page
    assert "No verdicts change" not in page


def test_viewers_look_and_cannot_start_or_save(tenant: Tenant, as_admin: Client, viewer: Person) -> None:
    trial = start(as_admin, "schemas", SCHEMA)
    client = Client()
    client.force_login(viewer)
    page = client.get(f"/t/acme/trials/{trial.pk}/")
    assert page.status_code == 200
    assert not select(only(page, "main"), "form")
    assert "Back to editing" not in page.text
    assert client.post(f"/t/acme/trials/{trial.pk}/save/").status_code == 403
    assert client.post("/t/acme/schemas/try/", SCHEMA).status_code == 403
    shown = client.get("/t/acme/schemas/", {"trial": str(trial.pk)}).text
    assert not select(only(shown, "main"), "form")


def test_another_tenants_trial_is_not_there(as_admin: Client, tenant: Tenant, other_tenant: Tenant) -> None:
    content = {"rows": [{"handoff_type": "x", "claim_fields": []}]}
    theirs = dry_runs.start(tenant=other_tenant, kind=schemas.kind, content=content, base_version=0, actor="eve")
    assert as_admin.get(f"/t/acme/trials/{theirs.pk}/").status_code == 404
    assert as_admin.post(f"/t/acme/trials/{theirs.pk}/save/").status_code == 404
    assert as_admin.get("/t/acme/schemas/", {"trial": str(theirs.pk)}).status_code == 404
    assert schemas.current(tenant).version == 0


def test_a_trial_can_be_stopped_and_keeps_what_it_found(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], viewer: Person
) -> None:
    submit()
    trial = start(as_admin, "schemas", SCHEMA)
    address = f"/t/acme/trials/{trial.pk}/"
    assert "Stop dry run" in as_admin.get(address).text
    client = Client()
    client.force_login(viewer)
    assert "Stop dry run" not in client.get(address).text
    assert client.post(f"{address}cancel/").status_code == 403
    assert as_admin.post(f"{address}cancel/").status_code == 302
    assert dry_runs.run_waiting() == 0
    page = as_admin.get(address).text
    assert "admin stopped the dry run." in page
    assert "Stop dry run" not in page
    as_admin.post(f"{address}cancel/")
    assert "The dry run had ended already." in as_admin.get(address).text


@pytest.mark.parametrize("kind", ["strictness", "rules", "schemas"])
def test_a_trial_is_found_again_from_its_page(as_admin: Client, tenant: Tenant, kind: str) -> None:
    with_signals(tenant)
    forms = {"rules": RULE, "schemas": SCHEMA, "strictness": strictness_form(tenant, "*", token_budget=1)}
    assert "Recent dry runs" not in as_admin.get(f"/t/acme/{kind}/").text
    trial = start(as_admin, kind, forms[kind])
    page = as_admin.get(f"/t/acme/{kind}/").text
    assert "Recent dry runs" in page
    assert f"/t/acme/trials/{trial.pk}/" in page
