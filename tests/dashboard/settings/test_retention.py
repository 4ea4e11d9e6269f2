"""Tests of the retention settings: stored rows, the preview of a deletion, and the saved periods."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.settings import removal
from handoffaudit.dashboard.settings import retention as settings_page
from handoffaudit.diagnostics.models import Erasure
from handoffaudit.handoffs import db, judge, legal_holds
from handoffaudit.handoffs.partitions import week_of
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.retention import Data, Retention
from handoffaudit.policy.versions import WHOLE_ROW, Change
from tests.diagnostics.files.support import received as report_received
from tests.diagnostics.files.support import report
from tests.diagnostics.logs.support import gate_lines, send
from tests.diagnostics.retention.support import aged, aged_blocks, keep, run_all
from tests.handoffs.support import judged, payload
from tests.pages import only, select, text_of

PAGE = "/t/acme/settings/retention/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def as_admin(client: Client, admin: Person) -> Client:
    client.force_login(admin)
    return client


def card(page, name: str) -> str:
    """Return the text of the card of one kind of data."""
    return " ".join(only(page, f"section#{name}").text(separator=" ").split())


def test_a_whole_row_of_the_history_is_no_number_of_days() -> None:
    row = {"name": "logs", "days": 30, "types": {}}
    found = settings_page.lines([Change("logs", WHOLE_ROW, None, row), Change("logs", "days", None, 30)])
    assert [(line.old, line.new) for line in found] == [("kept forever", "30 days")]


@pytest.fixture
def old_log(tenant: Tenant) -> None:
    send(tenant, gate_lines(0, 99))
    aged_blocks(tenant, 40)


def test_everything_is_kept_for_good_until_somebody_says_otherwise(as_admin: Client, old_log: None) -> None:
    page = as_admin.get(PAGE)
    assert "kept forever" in card(page, "logs")
    assert "100 lines" in card(page, "logs")
    assert "Next deletion nothing" in card(page, "logs")
    assert "kept for 14 days" in card(page, "deliveries")
    assert "Changed never" in card(page, "logs")


def test_a_change_before_the_first_page_of_the_history_is_named(as_admin: Client, tenant: Tenant) -> None:
    keep(tenant, logs=400)
    first = PolicyVersion.objects.get(tenant=tenant, kind=Kind.RETENTION)
    later = ({"number": number, "content": first.content, "changed_by": "rui"} for number in range(2, 103))
    PolicyVersion.objects.bulk_create(PolicyVersion(tenant=tenant, kind=first.kind, **one) for one in later)
    page = as_admin.get(PAGE)
    assert "by ada" in card(page, "logs")
    assert "Changed never" in card(page, "model_calls")


def test_a_long_history_is_read_in_one_query(as_admin: Client, tenant: Tenant) -> None:
    keep(tenant, logs=400)
    keep(tenant, documents=500)
    second = PolicyVersion.objects.get(tenant=tenant, kind=Kind.RETENTION, number=2)
    contents = (second.content.replace("400", str(400 + number)) for number in range(3, 103))
    later = ({"number": number, "content": text, "changed_by": "rui"} for number, text in enumerate(contents, 3))
    PolicyVersion.objects.bulk_create(PolicyVersion(tenant=tenant, kind=second.kind, **one) for one in later)
    with CaptureQueriesContext(connection) as queries:
        page = as_admin.get(PAGE)
    assert "by rui" in card(page, "logs")
    assert "by ada" in card(page, "documents")
    assert "Changed never" in card(page, "model_calls")
    # The other query reads the version in force.
    assert sum("changed_by" in query["sql"] for query in queries) == 2


def test_the_history_says_what_is_removed_as_shipped(as_admin: Client) -> None:
    shown = text_of(as_admin.get("/t/acme/policies/history/?kind=retention"))
    assert "Kept: deliveries for 14 days, tool results for 30 days, everything else forever." in shown


def test_less_than_six_months_is_warned_of_before_and_after_it_is_saved(as_admin: Client, tenant: Tenant) -> None:
    warning = "Less than six months (183 days)"
    assert warning in card(as_admin.get(PAGE, {"kind": "logs", "days": "182"}), "logs")
    assert warning not in card(as_admin.get(PAGE, {"kind": "logs", "days": "183"}), "logs")
    keep(tenant, logs=182)
    assert warning in card(as_admin.get(PAGE), "logs")
    assert warning not in card(as_admin.get(PAGE, {"kind": "logs", "days": "200"}), "logs")
    assert warning not in card(as_admin.get(PAGE), "deliveries")


def test_before_it_is_saved_the_page_says_how_much_would_go(as_admin: Client, tenant: Tenant, old_log: None) -> None:
    page = as_admin.get(PAGE, {"kind": "logs", "days": " 30 "})
    assert "100 lines from before" in card(page, "logs")
    assert "Keep for 30 days" in card(page, "logs")
    assert "would be deleted" not in card(page, "model_calls")
    assert retention.current(tenant).version == 0
    recent = card(as_admin.get(PAGE, {"kind": "logs", "days": "50"}), "logs")
    assert "No data is that old: no line would be deleted" in recent
    forever = card(as_admin.get(PAGE, {"kind": "logs", "days": ""}), "logs")
    assert "Kept forever : nothing is deleted from now on" in forever


def test_the_preview_names_the_time_from_which_data_stays(tenant: Tenant) -> None:
    """On PostgreSQL, handoffs are deleted by whole weeks."""
    before = settings_page._preview(tenant, Retention(Data.HANDOFFS, 30)).before
    assert before is not None
    assert (before == week_of(before)) == db.is_postgresql()


@pytest.mark.parametrize("days", ["soon", "0", "-3", "3.5", "99999", "9" * 500, "²"])
def test_days_that_make_no_sense_are_told_at_their_field(as_admin: Client, tenant: Tenant, days: str) -> None:
    page = as_admin.get(PAGE, {"kind": "logs", "days": days})
    assert page.status_code == 400
    assert "Use a whole number from 1 to 3,650. Leave the number out to keep the data forever." in card(page, "logs")
    assert as_admin.post(f"{PAGE}save/", {"kind": "logs", "days": days, "base_version": "0"}).status_code == 400
    assert retention.current(tenant).version == 0


def test_some_kinds_are_needed_for_a_while(as_admin: Client) -> None:
    page = as_admin.get(PAGE, {"kind": "model_calls", "days": "7"})
    assert page.status_code == 400
    assert "Use a whole number from 8 to 3,650" in card(page, "model_calls")


def test_a_rule_is_saved_and_the_page_says_when_it_begins_and_whose_it_is(
    as_admin: Client, tenant: Tenant, old_log: None
) -> None:
    page = as_admin.post(f"{PAGE}save/", {"kind": "logs", "days": "30", "base_version": "0"}, follow=True)
    assert "Log lines are kept for 30 days. Saved as version 1." in page.text
    assert "Next deletion 100 lines, from" in card(page, "logs")
    assert "by admin" in card(page, "logs")
    assert "Changed never" in card(page, "file_reports")
    assert retention.current(tenant).row("logs").days == 30
    page = as_admin.post(f"{PAGE}save/", {"kind": "logs", "days": "", "base_version": "1"}, follow=True)
    assert "Log lines are kept forever from now on." in page.text
    log = as_admin.get("/t/acme/settings/audit/").text
    assert "saved retention" in log


def test_a_save_on_an_old_view_overwrites_nothing(as_admin: Client, tenant: Tenant) -> None:
    as_admin.post(f"{PAGE}save/", {"kind": "logs", "days": "30", "base_version": "0"})
    page = as_admin.post(f"{PAGE}save/", {"kind": "model_calls", "days": "30", "base_version": "0"})
    assert page.status_code == 409
    assert "admin saved version 1 meanwhile" in page.text
    assert retention.current(tenant).version == 1


def test_a_kind_that_there_is_not_is_no_page(as_admin: Client) -> None:
    assert as_admin.get(PAGE, {"kind": "verdicts", "days": "1"}).status_code == 404
    assert as_admin.post(f"{PAGE}save/", {"kind": "verdicts", "days": "1"}).status_code == 404


def test_the_history_tells_changes_in_words_and_goes_back(as_admin: Client, tenant: Tenant) -> None:
    as_admin.post(f"{PAGE}save/", {"kind": "logs", "days": "30", "base_version": "0"})
    page = as_admin.get("/t/acme/policies/history/?kind=retention").text
    assert "Log lines" in page
    assert "30 days" in page
    as_admin.post("/t/acme/retention/revert/", {"to_version": "0", "base_version": "1"})
    assert retention.current(tenant).row("logs").days is None


def test_after_a_run_pages_say_what_was_removed_and_by_which_rule(as_admin: Client, tenant: Tenant) -> None:
    made = send(tenant, gate_lines(0, 99) + b"no line of any kind\n")
    found = report_received(tenant, report({})).report
    assert found is not None
    judge.drain()
    old = aged(found, 40)
    aged_blocks(tenant, 40)
    keep(tenant, logs=30, file_reports=30)
    run_all()
    assert "101 until now, last" in card(as_admin.get(PAGE), "logs")
    said = "by retention, which keeps them for 30 days. Figures still count them."
    for address in ("logs/", f"logs/import/{made.pk}/", "files/"):
        page = as_admin.get(f"/t/acme/diagnostics/{address}")
        assert page.status_code == 200
        assert said in text_of(page), address
    gone = as_admin.get(f"/t/acme/diagnostics/files/{old.pk}/", follow=True)
    assert "There is no such report. Retention removed data from before" in gone.text
    log = as_admin.get("/t/acme/settings/audit/").text
    assert "removed by retention" in log
    assert "removed: 101" in log


def test_every_active_hold_can_be_reached_and_lifted(as_admin: Client, tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(removal, "MOST_HOLDS", 2)
    for number in range(3):
        handoff = judged(tenant, payload(handoff_id=f"held-{number}"))
        legal_holds.place(tenant=tenant, scope="handoff", key=str(handoff.pk), reason="a case", actor="ada")
    page = as_admin.get("/t/acme/settings/retention/holds/")
    older = as_admin.get(page.context["next"])
    assert [text.count("Lift hold") for text in (page.text, older.text)] == [2, 1]
    assert "held-0" in older.text
    assert older.context["next"] == page.context["newest"] == ""


def test_a_hold_leads_to_the_handoff_or_the_trace_that_it_names(as_admin: Client, tenant: Tenant) -> None:
    handoff = judged(tenant, payload(), trace_id="order 7/b", handoff_id="first")
    for scope, key in (("handoff", handoff.handoff_id), ("trace", handoff.trace_id), ("tenant", "")):
        legal_holds.place(tenant=tenant, scope=scope, key=key, reason="a case", actor="ada")
    page = as_admin.get(f"{PAGE}holds/")
    links = {link.text(strip=True): link.attributes["href"] for link in select(page, "h2 a")}
    assert list(links) == [handoff.trace_id, handoff.handoff_id]
    assert {as_admin.get(address).status_code for address in links.values()} == {200}


def test_the_reasons_of_holds_and_erasures_show_signs_that_turn_text(as_admin: Client) -> None:
    as_admin.post(f"{PAGE}holds/place/", {"scope": "tenant", "reason": "a\u202ecase"})
    as_admin.post(f"{PAGE}erasures/request/", {"value": "ada@example.com", "reason": "a\u202ecase"})
    for page in ("holds/", "erasures/"):
        assert "a⟨U+202E⟩case" in as_admin.get(f"{PAGE}{page}").text


def test_a_second_request_for_a_value_says_how_far_its_erasure_is(as_admin: Client) -> None:
    for state, said in (("counting", "A worker counts"), ("counted", "counted already"), ("erasing", "erased already")):
        Erasure.objects.update(state=state)
        asked = {"value": "ada@example.com", "reason": "she asked"}
        assert said in text_of(as_admin.post(f"{PAGE}erasures/request/", asked, follow=True))
    assert Erasure.objects.count() == 1


def test_a_type_is_kept_forever_although_the_others_go(as_admin: Client, tenant: Tenant) -> None:
    given = {"kind": "documents", "days": "30"}
    terms = ("", "research =", "research =\nmy type = 60", "")
    for version, types in enumerate(terms):
        as_admin.post(f"{PAGE}save/", given | {"types": types, "base_version": str(version)})
    versions = [(one.table.row(Data.DOCUMENTS), one.changes) for one in reversed(retention.history(tenant))]
    assert [row and row.types for row, _ in versions[1:]] == [
        {},
        {"research": None},
        {"research": None, "my type": 60},
        {},
    ]
    lines = [[(line.field, line.old, line.new) for line in settings_page.lines(changes)] for _, changes in versions[2:]]
    research, spaced = "Kept if the type is research", 'Kept if the type is ["my type"]'
    assert lines == [
        [(research, "like other types", "kept forever")],
        [(spaced, "like other types", "60 days")],
        [(spaced, "60 days", "like other types"), (research, "kept forever", "like other types")],
    ]


def test_the_terms_of_a_type_with_an_equals_sign_in_its_name_can_be_saved(as_admin: Client, tenant: Tenant) -> None:
    given = {"kind": "handoffs", "days": "30", "base_version": "0", "types": "a=b = 60\nc= ="}
    as_admin.post(f"{PAGE}save/", given)
    assert retention.current(tenant).row(Data.HANDOFFS).types == {"a=b": 60, "c=": None}


def test_a_line_of_types_that_cannot_be_read_is_neither_a_term_nor_kept_forever(as_admin: Client) -> None:
    given = {"kind": "handoffs", "days": "30", "base_version": "0"}
    for types, said in (
        ("research 400", "The line 'research 400' has no \"=\"."),
        ("research: 400\nnote = 7", "The line 'research: 400' has no \"=\"."),
        ("research = 400\nresearch = 4", "The type 'research' has two lines."),
        (f"research = 60{' ' * 30_000}\nnotes", "The line 'notes' has no \"=\"."),
    ):
        previewed = as_admin.get(PAGE, given | {"types": types})
        saved = as_admin.post(f"{PAGE}save/", given | {"types": types})
        assert [page.status_code for page in (previewed, saved)] == [400, 400]
        assert all(said in card(page, "handoffs") for page in (previewed, saved))
        assert "Save these days" not in card(saved, "handoffs")
    assert not PolicyVersion.objects.filter(kind=Kind.RETENTION).exists()
