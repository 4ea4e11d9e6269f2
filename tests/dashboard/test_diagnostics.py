"""Tests of the pages of diagnostics with counts: reasons, compliance, overturn rates, codes."""

from collections.abc import Callable
from datetime import timedelta

import orjson
import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.diagnostics import codes
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import Event, Finding, Handoff
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.policy import kinds
from handoffaudit.validation.config import TypePolicy
from tests.diagnostics.support import counted, decided
from tests.pages import attributes, links, only, select, text_of, texts

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
BASE = "/t/acme/diagnostics/"
CIRCLE = ["writer", "planner"]
BIDI = "a\u202eb"


@pytest.fixture
def client_of_viewer(sign_in: SignIn, viewer: Person) -> Client:
    return sign_in(viewer)


@pytest.fixture
def skipping(tenant: Tenant) -> Tenant:
    """Store counts in which slot_b skips its file and planner does not."""
    now = timezone.now()
    counted(tenant, "planner", 100, now=now)
    counted(tenant, "slot_b", 40, phase="plan_review", now=now)
    counted(tenant, "slot_b", 60, "file_missing", phase="plan_review", fallback="text_fallback_ok", now=now)
    return tenant


def approved(tenant: Tenant, submit: Submit, number: int, note: str = "fine", **changes: object) -> list[Handoff]:
    found = [submit(call_chain=CIRCLE, **changes) for _ in range(number)]
    return [decided(tenant, handoff, Decision.APPROVE, note) for handoff in found]


def test_without_anything_reported_it_says_what_to_send(client_of_viewer: Client) -> None:
    page = client_of_viewer.get(BASE)
    assert page.status_code == 200
    assert "handoffaudit report-file --path" in page.text
    assert "handoffaudit import-log" in page.text


def test_with_earlier_reports_only_it_leads_to_them(client_of_viewer: Client, tenant: Tenant) -> None:
    counted(tenant, "planner", 1)
    page = client_of_viewer.get(f"{BASE}?period=24h")
    assert "No handoff file in this period" in page.text
    assert "report-file" not in page.text


def test_the_worst_agent_is_told_with_its_reason_and_leads_to_its_reports(
    client_of_viewer: Client, skipping: Tenant
) -> None:
    page = client_of_viewer.get(BASE)
    assert page.context["found"].worst.agent == "slot_b"
    assert "40/100 (40.0 %) used" in page.text
    assert "140 of 200" in page.text
    reports = only(page, ".matrix-why a:first-child")
    assert text_of(reports).startswith("File missing")
    address = reports.attributes["href"] or ""
    assert "agent=slot_b&phase=plan_review&reason=file_missing" in address
    listed = client_of_viewer.get(address)
    assert listed.status_code == 200


def test_only_a_phase_that_is_unusual_for_its_agent_is_marked(client_of_viewer: Client, tenant: Tenant) -> None:
    now = timezone.now()
    counted(tenant, "careful", 100, phase="plan", now=now)
    counted(tenant, "careful", 40, "file_missing", phase="build", now=now)
    # As often in both phases, which is usual for this agent.
    for phase in ("plan", "build"):
        counted(tenant, "careless", 30, phase=phase, now=now)
        counted(tenant, "careless", 70, "file_missing", phase=phase, now=now)
    page = client_of_viewer.get(BASE)
    marked = {row.agent: len(select(f"<table><tr>{row.cells}", ".matrix-cell--bad")) for row in page.context["rows"]}
    assert marked == {"careful": 1, "careless": 0}
    assert text_of(page).count("unusually few for this agent") == 1


def test_every_link_of_the_page_leads_somewhere(client_of_viewer: Client, skipping: Tenant, submit: Submit) -> None:
    submit(call_chain=CIRCLE)
    page = client_of_viewer.get(BASE)
    found = page.context
    links = [found["all_reports"], found["fallback_ok"], found["fallback_failed"]]
    links += [address for card in found["cards"] for address in (card.reports, card.lines)]
    rows = attributes(page, ".code-table tbody a", "href")
    assert len(rows) == 3
    links += rows
    links += [row.reports for row in found["rows"]]
    assert {address: client_of_viewer.get(address).status_code for address in links} == dict.fromkeys(links, 200)


def test_a_wrong_path_is_shown_beside_the_expected_one(client_of_viewer: Client, skipping: Tenant) -> None:
    handoff = Handoff.objects.create(
        tenant=skipping, handoff_id="x", state="rejected", received_at=timezone.now(), size_bytes=1
    )
    FileReport.objects.create(
        tenant=skipping,
        handoff=handoff.pk,
        at=timezone.now(),
        agent="slot_b",
        phase="plan_review",
        expected_path="run/1/handoff.json",
        wrong_path=f"run/{BIDI}/handoff.json",
        source="text_fallback",
        reason="file_missing",
        failed=True,
        content=orjson.dumps({"issues": []}).decode(),
    )
    page = client_of_viewer.get(BASE)
    assert "run/1/handoff.json" in page.text
    assert "run/a⟨U+202E⟩b/handoff.json" in page.text


@pytest.mark.parametrize("path", ["", "compliance/", "noise/", "codes/chain.circular/"])
def test_a_period_that_cannot_be_read_is_told(path: str, client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{BASE}{path}?period=1y")
    assert page.status_code == 400
    assert "use a number of hours or days" in page.text


@pytest.mark.parametrize("path", ["", "compliance/", "noise/", "codes/chain.circular/"])
@pytest.mark.parametrize("period", ["period=24h", "period=monday", "since=2026-02-01&until=2026-02-03"])
def test_each_page_takes_any_period(path: str, period: str, client_of_viewer: Client, skipping: Tenant) -> None:
    assert client_of_viewer.get(f"{BASE}{path}?{period}").status_code == 200


def test_names_of_senders_hide_nothing(client_of_viewer: Client, tenant: Tenant) -> None:
    counted(tenant, f"{BIDI}<b>", 1, "file_missing", phase=BIDI, runtime=BIDI, now=timezone.now())
    for path in ("", "compliance/"):
        page = client_of_viewer.get(f"{BASE}{path}")
        assert "\u202e" not in page.text
        assert "a⟨U+202E⟩b&lt;b&gt;" in page.text


def test_weeks_lead_to_their_handoffs_and_are_exported(
    client_of_viewer: Client, skipping: Tenant, submit: Submit
) -> None:
    submit()
    page = client_of_viewer.get(f"{BASE}compliance/")
    cells = links(page, "section[aria-labelledby=weeks-acceptance_rate] td a")
    assert cells
    for cell in cells:
        assert client_of_viewer.get(cell).context["handoffs"]
    lines = client_of_viewer.get(f"{BASE}compliance/weeks.json").json()["items"]
    assert {line["rate"] for line in lines} == {"acceptance_rate", "file_compliance"}
    rows = client_of_viewer.get(f"{BASE}compliance/weeks.csv").text.splitlines()
    assert len(rows) == len(lines) + 1
    assert only(page, "main.main--report")  # static/css/diagnostics.css prints it
    assert "An administrator can have the report of each week sent" in page.text


def test_a_table_of_weeks_begins_with_the_first_week_that_has_a_number(
    client_of_viewer: Client, tenant: Tenant, submit: Submit
) -> None:
    submit()
    counted(tenant, "planner", 3, now=timezone.now() - timedelta(weeks=2))
    page = client_of_viewer.get(f"{BASE}compliance/")
    rates = ("acceptance_rate", "file_compliance")
    columns = {rate: len(select(page, f"section[aria-labelledby=weeks-{rate}] thead th")) for rate in rates}
    assert columns == {"acceptance_rate": 3, "file_compliance": 5}


def test_the_compliance_page_and_its_files_say_the_same(client_of_viewer: Client, skipping: Tenant) -> None:
    page = client_of_viewer.get(f"{BASE}compliance/?period=24h&expect=fix/never")
    for told in ("140/200 (70.0 %)", "40/100 (40.0 %)", "0/0 (n/a)"):
        assert told in page.text
    query = page.context["query"]
    for form, kind in {"json": "application/json", "csv": "text/csv", "txt": "text/plain"}.items():
        file = client_of_viewer.get(f"{BASE}compliance.{form}?{query}")
        assert file["Content-Type"].startswith(kind)
        assert file["Content-Disposition"].startswith('attachment; filename="compliance-acme-')
        assert "140/200 (70.0%)" in file.text
        assert "never" in file.text


def test_the_compliance_page_sums_the_runtimes_that_it_does_not_list(
    client_of_viewer: Client, skipping: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(skipping, "planner", 5, runtime="codex", now=timezone.now())
    monkeypatch.setattr("handoffaudit.diagnostics.file_stats.MOST_RUNTIMES", 1)
    page = client_of_viewer.get(f"{BASE}compliance/?period=24h")
    rows = [row.partition(" %")[0] for row in texts(page, ".matrix tr") if row.startswith("runtime")]
    assert rows == ["runtime claude 140/200 (70.0", "runtime others 5/5 (100.0"]


def test_a_file_of_a_period_that_cannot_be_read_says_why(client_of_viewer: Client) -> None:
    answer = client_of_viewer.get(f"{BASE}compliance.csv?period=1y")
    assert (answer.status_code, answer["Content-Type"]) == (400, "text/plain; charset=utf-8")
    assert "use a number of hours or days" in answer.text


def test_a_noisy_code_is_told_with_its_notes_and_the_row_that_changes_it(
    client_of_viewer: Client, admin: Person, tenant: Tenant, submit: Submit
) -> None:
    assert "No decisions in this period" in client_of_viewer.get(f"{BASE}noise/").text
    row = TypePolicy("memo")
    kinds.strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    approved(tenant, submit, 3, "the desk goes back on purpose", handoff_type="memo")
    page = client_of_viewer.get(f"{BASE}noise/")
    [line] = page.context["noisy"]
    assert line.decided.code == "chain.circular"
    assert "Overturned 3/3 (100.0 %)" in page.text
    assert "the desk goes back on purpose" in page.text
    assert (line.fix.link, line.fix.text) == ("/t/acme/strictness/row/?type=memo", "See the strictness row memo")
    of_admin = Client()
    of_admin.force_login(admin)
    [for_admin] = of_admin.get(f"{BASE}noise/").context["noisy"]
    assert (for_admin.fix.link, for_admin.fix.text) == (
        "/t/acme/strictness/?edit=memo",
        "Change the strictness row memo",
    )
    assert len(client_of_viewer.get(line.handoffs).context["handoffs"]) == 3
    assert "chain.circular" in text_of(client_of_viewer.get("/t/acme/"), "section[aria-labelledby=overturned]")


def test_an_overturned_code_beyond_the_cards_is_in_the_table(
    client_of_viewer: Client, tenant: Tenant, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "MOST_CARDS", 0)
    approved(tenant, submit, 3)
    [line] = client_of_viewer.get(f"{BASE}noise/").context["quiet"]
    assert (line.decided.code, line.decided.noisy) == ("chain.circular", True)


def test_an_overturned_code_leads_to_approved_handoffs_from_before_the_period(
    client_of_viewer: Client, tenant: Tenant, submit: Submit
) -> None:
    [handoff] = approved(tenant, submit, 1)
    old = first_id_at(timezone.now() - timedelta(days=9))
    for rows in (Finding.objects.filter(handoff=handoff), Event.objects.filter(handoff=handoff)):
        rows.update(handoff=old)
    Handoff.objects.filter(pk=handoff.pk).update(id=old)
    [line] = client_of_viewer.get(f"{BASE}noise/?period=7d").context["quiet"]
    assert line.decided.overturned == len(client_of_viewer.get(line.handoffs).context["handoffs"]) == 1


def test_the_overview_is_silent_where_nothing_is_noisy(
    client_of_viewer: Client, tenant: Tenant, submit: Submit
) -> None:
    approved(tenant, submit, 2)
    assert "Overturned rule codes" not in client_of_viewer.get("/t/acme/").text


def test_a_code_leads_from_its_handoff_to_how_often_and_whose_it_is(
    client_of_viewer: Client, tenant: Tenant, submit: Submit
) -> None:
    [handoff] = approved(tenant, submit, 1)
    address = f"{BASE}codes/chain.circular/"
    assert f'href="{address}"' in client_of_viewer.get(f"/t/acme/handoffs/{handoff.pk}/").text
    page = client_of_viewer.get(address)
    assert page.context["found"].sources == [("planner", 1)]
    assert "1/1 (100.0 %) of final attempts" in page.text
    assert f'href="/t/acme/handoffs/{handoff.pk}/"' in page.text


def test_a_code_was_first_seen_at_the_time_of_its_handoff(
    client_of_viewer: Client, tenant: Tenant, submit: Submit
) -> None:
    """A handoff that was sent late has the time at which it was handed over, as in lists."""
    [handoff] = approved(tenant, submit, 1)
    Handoff.objects.filter(pk=handoff.pk).update(sent_at=handoff.received_at - timedelta(days=3))
    [figure] = select(client_of_viewer.get(f"{BASE}codes/chain.circular/"), ".figure:last-child time")
    assert figure.attributes["datetime"] == (handoff.received_at - timedelta(days=3)).isoformat()


def test_a_code_that_has_no_counts_is_not_said_to_have_no_handoffs(
    client_of_viewer: Client, tenant: Tenant, submit: Submit
) -> None:
    handoff = submit()
    Finding.objects.create(tenant=tenant, handoff=handoff, code=UNVERIFIED, severity="warning", layer="semantic")
    page = client_of_viewer.get(f"{BASE}codes/{UNVERIFIED}/")
    shown = text_of(page)
    assert f'href="/t/acme/handoffs/{handoff.pk}/"' in page.text
    assert "Handoffs with it not counted" in shown
    assert "No handoff of this period has it" not in shown


def test_a_code_of_the_catalogue_that_nobody_had_is_explained(client_of_viewer: Client) -> None:
    page = client_of_viewer.get(f"{BASE}codes/tokens.over_budget/")
    assert page.status_code == 200
    assert "No handoff of this period has it." in page.text


@pytest.mark.parametrize("code", ["no.such", "a/b", "%00", "x" * 500])
def test_a_code_that_is_none_is_not_found(code: str, client_of_viewer: Client) -> None:
    assert client_of_viewer.get(f"{BASE}codes/{code}/").status_code == 404
