"""Tests of actions on selected rows of lists: who may, what is confirmed, what is done, and hostile forms."""

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.selection import MOST_SELECTED
from handoffaudit.diagnostics.models import FindingGroup, LogBlock
from handoffaudit.handoffs import legal_holds
from handoffaudit.handoffs.models import Handoff, LegalHold, PassedOn
from handoffaudit.policy import kinds
from tests.dashboard.log_lines import BAD, gate, health, moment, take
from tests.diagnostics.groups.support import found, group
from tests.pages import attributes, hidden_fields, links, only, select, texts

pytestmark = pytest.mark.django_db

LONG_CHAIN = ["a", "b", "c", "d", "e", "planner"]
HANDOFFS, GROUPS = "/t/acme/handoffs/selected/", "/t/acme/groups/selected/"
TRACES, AGENTS = "/t/acme/traces/selected/", "/t/acme/agents/selected/"
LOGS = "/t/acme/diagnostics/logs/selected/"
Submit = Callable[..., Handoff]
TOO_MANY = [f"{number:032x}:1" for number in range(MOST_SELECTED + 1)]


@pytest.fixture
def browser(sign_in: Callable[[Person], Client], reviewer: Person) -> Client:
    return sign_in(reviewer)


def rows(*handoffs: Handoff) -> list[str]:
    return [f"{one.pk}:{one.version}" for one in handoffs]


def traced(trace: str, handoff: Handoff) -> Handoff:
    handoff.trace_id = trace
    handoff.save(update_fields=["trace_id"])
    return handoff


def confirmed(page: Any) -> dict[str, list[str]]:
    """Return the hidden fields of the page that asks for confirmation, as a browser sends them."""
    fields: dict[str, list[str]] = {}
    for name, value in hidden_fields(only(page, "form.confirm")):
        fields.setdefault(name, []).append(value)
    return fields


def test_each_role_is_offered_what_it_may_do(
    as_viewer: Client, as_admin: Client, browser: Client, submit: Submit
) -> None:
    submit()
    offered = [texts(client.get("/t/acme/handoffs/"), "#selected button") for client in (as_viewer, browser, as_admin)]
    export, decide = ["Export CSV", "Export NDJSON"], ["Approve…", "Decline…", "Assign…"]
    assert offered == [export, [*decide, *export], [*decide, "Judge again…", *export]]
    found_on = as_viewer.get("/t/acme/handoffs/")
    assert attributes(found_on, ".row-select", "form") == ["selected"]


def test_traces_and_agents_offer_each_role_what_it_may_do(
    as_viewer: Client, as_admin: Client, browser: Client, submit: Submit
) -> None:
    traced("run 7", submit())
    export, decide = ["Export CSV", "Export NDJSON"], ["Approve…", "Decline…", "Assign…"]
    pages = [client.get("/t/acme/traces/") for client in (as_viewer, browser, as_admin)]
    offered = [texts(page, "#selected button") for page in pages]
    assert offered == [export, [*decide, *export], [*decide, "Judge again…", "Legal hold…", *export]]
    assert attributes(pages[0], ".row-select", "value") == ["run%207"]
    pages = [client.get("/t/acme/agents/") for client in (browser, as_admin)]
    assert [texts(page, "#selected button") for page in pages] == [export, ["Declare role…", *export]]
    assert set(attributes(pages[0], ".row-select", "value")) == {"planner", "writer"}
    assert links(pages[0], "a.skip")[-1] == "#rows"
    assert attributes(pages[0], "[data-row]", "data-item") == attributes(pages[0], ".row-select", "value")


def test_the_waiting_handoffs_of_selected_traces_are_assigned(
    browser: Client, reviewer: Person, submit: Submit
) -> None:
    held = traced("run 7", submit(call_chain=LONG_CHAIN))
    traced("run 7", submit())
    traced("run 8", submit(call_chain=LONG_CHAIN))
    page = browser.post(f"{HANDOFFS}assign/", {"select": "run 7", "page": "traces", "query": "state=held"})
    assert texts(page, "form.confirm h2") == ["1 handoff of the selected traces"]
    done = browser.post(f"{HANDOFFS}assign/", confirmed(page) | {"to": reviewer.username, "note": ""}, follow=True)
    assert done.redirect_chain[-1][0] == "/t/acme/traces/?state=held"
    assert f"1 handoff assigned to {reviewer.username}." in done.text
    assert PassedOn.objects.get().handoff_id == held.pk


def test_the_waiting_handoffs_of_selected_traces_are_decided_after_the_forecast(
    browser: Client, submit: Submit
) -> None:
    held, other = traced("run 7", submit(call_chain=LONG_CHAIN)), traced("run 8", submit(call_chain=LONG_CHAIN))
    wanted = {"select": "run 7", "page": "traces", "decision": "decline"}
    # The list of traces has no filters of the queue, so the form is not read for them.
    page = browser.post(f"{TRACES}decide/", wanted | {"view": "unknown"})
    assert attributes(page, "input[name=select]", "value") == [f"{held.pk}:{held.version}"]
    assert texts(browser.post(f"{TRACES}decide/", wanted | {"select": "run 9"}), ".note--error b") == ["select"]
    browser.post("/t/acme/review/several/run/", {"select": rows(held), "decision": "decline"})
    held.refresh_from_db()
    other.refresh_from_db()
    assert (held.state, other.state) == ("declined", "held")


def test_parked_handoffs_of_selected_traces_are_judged_again(as_admin: Client, submit: Submit) -> None:
    parked, other = traced("run 7", submit()), traced("run 7", submit())
    Handoff.objects.filter(pk=parked.pk).update(parked=True)
    page = as_admin.post(f"{HANDOFFS}judge-again/", {"select": "run 7", "page": "traces"})
    assert texts(page, "form.confirm button") == ["Judge 1 again"]
    as_admin.post(f"{HANDOFFS}judge-again/", confirmed(page))
    parked.refresh_from_db()
    other.refresh_from_db()
    assert (parked.state, other.state) == ("received", "accepted")


def test_selected_traces_are_held_for_one_reason(as_admin: Client, submit: Submit) -> None:
    traced("run 7", submit())
    traced("run 8", submit())
    page = as_admin.post(f"{TRACES}hold/", {"select": ["run 7", "run 8"]})
    assert texts(page, "form.confirm button") == ["Hold 2"]
    without = as_admin.post(f"{TRACES}hold/", confirmed(page) | {"note": " "})
    assert (without.status_code, LegalHold.objects.count()) == (400, 0)
    done = as_admin.post(f"{TRACES}hold/", confirmed(page) | {"note": "Case 12."}, follow=True)
    assert "2 traces put on legal hold" in done.text
    held = LegalHold.objects.order_by("key").values_list("scope", "key", "reason")
    assert list(held) == [("trace", "run 7", "Case 12."), ("trace", "run 8", "Case 12.")]


def sent(page: Any, selector: str) -> list[str]:
    """Return the values of these fields as browsers send them, with CR LF for each line break."""
    return [re.sub(r"\r\n|\r|\n", "\r\n", value) for value in attributes(page, selector, "value")]


@pytest.mark.parametrize("name", ["run\n7", "run\r7", "run%0A7"])
def test_a_selected_trace_or_agent_may_have_a_line_break_in_its_name(
    as_admin: Client, submit: Submit, name: str
) -> None:
    handoff = traced(name, submit(source_agent_id=name))
    chosen = sent(as_admin.get("/t/acme/traces/"), ".row-select")
    page = as_admin.post(f"{TRACES}hold/", {"select": chosen})
    again = sent(page, "form.confirm [name=select]")
    as_admin.post(f"{TRACES}hold/", {"select": again, "confirmed": "1", "note": "Claim 12."})
    assert [one.key for one in LegalHold.objects.all()] == [name]
    file = as_admin.post(f"{TRACES}export/", {"select": chosen, "format": "ndjson"})
    assert [orjson.loads(line)["id"] for line in file.getvalue().splitlines()] == [str(handoff.pk)]
    agents = sent(as_admin.get("/t/acme/agents/"), ".row-select")
    file = as_admin.post(f"{AGENTS}export/", {"select": agents, "format": "ndjson"})
    assert {orjson.loads(line)["agent"] for line in file.content.splitlines()} == {name, "writer"}


def test_a_trace_that_cannot_be_held_does_not_hide_that_the_others_are_held(
    as_admin: Client, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced("run 7", submit())
    traced("run 8", submit())
    monkeypatch.setattr(legal_holds, "MOST_HOLDS", 1)
    form = {"select": ["run 7", "gone", "run 8"], "note": "Case 12.", "confirmed": "1"}
    done = as_admin.post(f"{TRACES}hold/", form, follow=True)
    assert [one.key for one in LegalHold.objects.all()] == ["run 7"]
    assert "1 trace put on legal hold" in done.text
    assert "1 trace left unchanged: There are 1 holds already" in done.text
    assert "1 trace left unchanged: No handoff has the trace" in done.text


def test_the_role_of_selected_agents_is_declared_as_one_version(
    as_admin: Client, submit: Submit, tenant: Tenant
) -> None:
    submit()
    page = as_admin.post(f"{AGENTS}role/", {"select": ["planner", "writer"], "query": "period=30d"})
    assert texts(page, "form.confirm button") == ["Declare 2"]
    wrong = as_admin.post(f"{AGENTS}role/", confirmed(page) | {"role": "king"})
    assert wrong.status_code == 400
    done = as_admin.post(f"{AGENTS}role/", confirmed(page) | {"role": "observer", "note": "Tools."}, follow=True)
    assert done.redirect_chain[-1][0] == "/t/acme/agents/?period=30d"
    table = kinds.roles.current(tenant)
    assert (table.version, table.note) == (1, "Tools.")
    assert [(row.agent, row.role) for row in table.rows] == [("planner", "observer"), ("writer", "observer")]
    as_admin.post(f"{AGENTS}role/", confirmed(page) | {"role": "guessed"})
    assert kinds.roles.current(tenant).rows == ()


def test_the_handoffs_of_selected_traces_and_the_figures_of_agents_are_files(as_viewer: Client, submit: Submit) -> None:
    one, two, _ = traced("run 7", submit()), traced("run 7", submit()), traced("run 8", submit())
    answer = as_viewer.post(f"{TRACES}export/", {"select": "run 7", "format": "ndjson", "query": "state=accepted"})
    lines = [orjson.loads(line) for line in answer.getvalue().splitlines()]
    assert [line["id"] for line in lines] == [str(two.pk), str(one.pk)]
    assert "acme-traces-state-accepted-" in answer["Content-Disposition"]
    answer = as_viewer.post(f"{AGENTS}export/", {"select": "planner", "format": "csv"})
    head, row, *rest = answer.text.splitlines()
    assert head.startswith("agent,role,role_is_declared,sent,received,accepted,judged")
    assert (row.split(",")[:7], rest) == (["planner", "worker", "false", "3", "0", "3", "3"], [])


@pytest.mark.parametrize("address", [f"{TRACES}hold/", f"{TRACES}export/", f"{AGENTS}role/", f"{AGENTS}export/"])
@pytest.mark.parametrize("rows", [[], [""], ["\x00"], ["x" * 501]])
def test_a_form_with_wrong_names_is_refused(as_admin: Client, address: str, rows: list[str]) -> None:
    answer = as_admin.post(address, {"select": rows, "format": "csv", "confirmed": "1"})
    assert answer.status_code == 400
    assert texts(answer, ".note--error b") == ["select"]
    assert links(answer, ".crumbs a") == [address.split("selected", maxsplit=1)[0]]


def test_old_handoffs_in_upper_case_belong_to_the_selected_trace(as_admin: Client, held: Handoff) -> None:
    name = "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"
    Handoff.objects.filter(pk=held.pk).update(trace_id=name.upper())
    sent = as_admin.post(f"{TRACES}export/", {"select": name, "page": "traces", "format": "csv"})
    assert str(held.pk) in sent.getvalue().decode()
    page = as_admin.post(f"{HANDOFFS}assign/", {"select": name, "page": "traces"})
    assert (page.status_code, f"{held.pk}:" in page.text) == (200, True)


def test_traces_of_another_tenant_are_neither_changed_nor_sent(
    as_admin: Client, submit_to: Submit, other_tenant: Tenant
) -> None:
    theirs = traced("run 7", submit_to(other_tenant, call_chain=LONG_CHAIN))
    wanted = {"select": "run 7", "page": "traces", "note": "Mine.", "format": "csv", "decision": "decline"}
    for address in (f"{HANDOFFS}assign/", f"{HANDOFFS}judge-again/", f"{TRACES}decide/"):
        assert texts(as_admin.post(address, wanted), ".note--error b") == ["select"]
    held = as_admin.post(f"{TRACES}hold/", wanted | {"confirmed": "1"})
    assert held.status_code == 400
    assert str(theirs.pk) not in as_admin.post(f"{TRACES}export/", wanted).getvalue().decode()
    assert not LegalHold.objects.exists()


def test_selected_handoffs_are_assigned_after_a_page_that_names_the_number(
    browser: Client, reviewer: Person, submit: Submit
) -> None:
    held, accepted = submit(call_chain=LONG_CHAIN), submit()
    page = browser.post(f"{HANDOFFS}assign/", {"select": rows(held, accepted), "query": "sort=oldest&source=planner"})
    assert texts(page, "form.confirm h2") == ["2 selected"]
    assert not PassedOn.objects.exists()
    without = browser.post(f"{HANDOFFS}assign/", confirmed(page) | {"to": "", "note": " "})
    assert without.status_code == 400
    assert "what the next person must know" in texts(without, "#confirm-error")[0]
    done = browser.post(f"{HANDOFFS}assign/", confirmed(page) | {"to": reviewer.username, "note": ""}, follow=True)
    assert done.redirect_chain[-1][0] == "/t/acme/handoffs/?source=planner&sort=oldest"
    assert f"2 handoffs assigned to {reviewer.username}." in done.text
    assert [one.to for one in PassedOn.objects.select_related("to")] == [reviewer, reviewer]


def test_only_a_waiting_handoff_is_set_aside_for_nobody(browser: Client, submit: Submit) -> None:
    page = browser.post(f"{HANDOFFS}assign/", {"select": rows(submit(call_chain=LONG_CHAIN), submit())})
    done = browser.post(f"{HANDOFFS}assign/", confirmed(page) | {"to": "", "note": "Ask."}, follow=True)
    assert "1 handoff left unchanged: This handoff is accepted" in done.text
    assert PassedOn.objects.count() == 1


def test_a_handoff_that_changed_since_is_left_as_it_is(browser: Client, submit: Submit) -> None:
    held = submit(call_chain=LONG_CHAIN)
    wanted = {"select": [f"{held.pk}:1"], "confirmed": "1", "note": "Ask."}
    done = browser.post(f"{HANDOFFS}assign/", wanted, follow=True)
    assert "1 handoff left unchanged: This handoff changed since" in done.text
    assert not PassedOn.objects.exists()


def test_only_parked_handoffs_are_judged_again(as_admin: Client, submit: Submit) -> None:
    parked, other = submit(), submit()
    Handoff.objects.filter(pk=parked.pk).update(parked=True)
    page = as_admin.post(f"{HANDOFFS}judge-again/", {"select": rows(parked, other)})
    assert texts(page, "form.confirm button") == ["Judge 1 again"]
    done = as_admin.post(f"{HANDOFFS}judge-again/", confirmed(page), follow=True)
    assert "1 handoff put into the queue again." in done.text
    assert "1 handoff left unchanged: Only parked handoffs" in done.text
    parked.refresh_from_db()
    assert (parked.state, parked.parked) == ("received", False)


def test_selected_groups_are_muted_with_one_reason(browser: Client, tenant: Tenant) -> None:
    found(tenant, 2)
    pks = [str(one) for one in FindingGroup.objects.values_list("pk", flat=True)]
    page = browser.post(f"{GROUPS}mute/", {"select": pks})
    assert texts(page, "form.confirm button") == [f"Mute {len(pks)}"]
    without = browser.post(f"{GROUPS}mute/", confirmed(page) | {"until": "10", "note": ""})
    assert without.status_code == 400
    browser.post(f"{GROUPS}mute/", confirmed(page) | {"until": "10", "note": "Known."})
    assert set(FindingGroup.objects.values_list("muted_note", flat=True)) == {"Known."}


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_selected_rows_are_a_file(as_viewer: Client, submit: Submit, tenant: Tenant, form: str) -> None:
    one, two, _ = submit(), submit(), submit()
    answer = as_viewer.post(f"{HANDOFFS}export/", {"select": rows(one, two), "format": form})
    assert [str(pk) in answer.text for pk in Handoff.objects.order_by("pk").values_list("pk", flat=True)] == [
        True,
        True,
        False,
    ]
    assert answer["Content-Disposition"] == f'attachment; filename="acme-handoffs-selected.{form}"'
    found(tenant, 1)
    answer = as_viewer.post(f"{GROUPS}export/", {"select": str(group(tenant).pk), "format": form})
    assert "chain.circular" in answer.text


@pytest.mark.parametrize("address", [f"{HANDOFFS}assign/", f"{HANDOFFS}judge-again/", f"{HANDOFFS}export/"])
@pytest.mark.parametrize("rows", [[], ["x"], ["\x00:1"], [""], TOO_MANY])
def test_a_form_with_no_rows_or_wrong_ones_is_refused_by_name(as_admin: Client, address: str, rows: list[str]) -> None:
    answer = as_admin.post(address, {"select": rows, "format": "csv", "confirmed": "1"})
    assert answer.status_code == 400
    assert texts(answer, ".note--error b") == ["select"]
    assert links(answer, ".crumbs a") == ["/t/acme/handoffs/"]


@pytest.mark.parametrize("rows", [[], ["x"], ["-1"], ["9" * 13], [str(number) for number in range(MOST_SELECTED + 1)]])
@pytest.mark.parametrize("action", ["mute", "export"])
def test_wrong_groups_are_refused_by_name(as_admin: Client, rows: list[str], action: str) -> None:
    answer = as_admin.post(f"{GROUPS}{action}/", {"select": rows, "format": "csv", "confirmed": "1"})
    assert answer.status_code == 400
    assert texts(answer, ".note--error b") == ["select"]


def test_rows_of_another_tenant_are_neither_changed_nor_sent(
    as_admin: Client, submit_to: Submit, other_tenant: Tenant
) -> None:
    theirs = submit_to(other_tenant, call_chain=LONG_CHAIN)
    Handoff.objects.filter(pk=theirs.pk).update(parked=True)
    found(other_tenant, 1, tenant_id=other_tenant.slug)
    finding = group(other_tenant)
    wanted = {"select": rows(theirs), "confirmed": "1", "note": "Mine.", "format": "csv"}
    for action in ("assign", "judge-again"):
        answer = as_admin.post(f"{HANDOFFS}{action}/", wanted, follow=True)
        assert "Deleted meanwhile" in answer.text
    assert str(theirs.pk) not in as_admin.post(f"{HANDOFFS}export/", wanted).text
    answer = as_admin.post(f"{GROUPS}mute/", wanted | {"select": str(finding.pk)}, follow=True)
    assert "Deleted meanwhile" in answer.text
    assert "chain.circular" not in as_admin.post(f"{GROUPS}export/", wanted | {"select": str(finding.pk)}).text
    finding.refresh_from_db()
    assert finding.muted_at is None
    assert Handoff.objects.get(pk=theirs.pk).parked
    assert not PassedOn.objects.exists()


def test_selected_log_lines_are_a_file_in_the_order_of_the_list(as_viewer: Client, tenant: Tenant) -> None:
    take(tenant, health(moment(3)), gate(moment(2)), BAD, source="old.log")
    take(tenant, gate(moment(1), details="=1+1"), source="new.log")
    page = as_viewer.get("/t/acme/diagnostics/logs/?q=a")
    assert texts(page, "#selected button") == ["Export CSV", "Export NDJSON"]
    assert set(attributes(page, ".row-select", "form")) == {"selected"}
    newest, bad, _, oldest = attributes(page, ".row-select", "value")
    wanted = {"select": [newest, bad, oldest], "query": "q=a", "format": "ndjson"}
    answer = as_viewer.post(f"{LOGS}export/", wanted)
    lines = [orjson.loads(line) for line in answer.getvalue().splitlines()]
    assert [(line["source"], line["number"], line["kind"]) for line in lines] == [
        ("new.log", 1, "gate"),
        ("old.log", 3, "bad"),
        ("old.log", 1, "health"),
    ]
    assert (lines[1]["at"], lines[1]["text"], "teleport" in lines[1]["why"]) == (None, BAD, True)
    assert (lines[2]["agents"], lines[2]["events"], lines[2]["trace"]) == (["planner"], ["schema_invalid"], "run-7")
    assert "acme-logs-q-a-" in answer["Content-Disposition"]
    head, *rows = as_viewer.post(f"{LOGS}export/", wanted | {"format": "csv"}).getvalue().decode().splitlines()
    assert (head.split(",")[:4], len(rows)) == (["source", "number", "at", "kind"], 3)


NO_BLOCK = "0" * 32


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [""],
        ["x:1"],
        [NO_BLOCK],
        [f"{NO_BLOCK}:-1"],
        ["\x00:1"],
        [f"{NO_BLOCK}:{n}" for n in range(MOST_SELECTED + 1)],
    ],
)
def test_wrong_log_lines_are_refused_by_name(as_viewer: Client, rows: list[str]) -> None:
    answer = as_viewer.post(f"{LOGS}export/", {"select": rows, "format": "csv"})
    assert (answer.status_code, texts(answer, ".note--error b")) == (400, ["select"])
    assert links(answer, ".crumbs a") == ["/t/acme/diagnostics/logs/"]


def test_log_lines_that_are_removed_or_of_another_tenant_are_not_sent(
    as_viewer: Client, tenant: Tenant, other_tenant: Tenant
) -> None:
    take(tenant, gate(moment(1), details="removed"))
    take(other_tenant, gate(moment(1), details="theirs"))
    LogBlock.objects.filter(tenant=tenant).update(removed_at=moment(0))
    places = [f"{pk.hex}:1" for pk in LogBlock.objects.values_list("pk", flat=True)]
    assert len(places) == 2
    answer = as_viewer.post(f"{LOGS}export/", {"select": [*places, f"{NO_BLOCK}:1"], "format": "ndjson"})
    assert (answer.status_code, answer.getvalue()) == (200, b"")


def test_a_wrong_person_or_format_is_named(as_admin: Client, submit: Submit) -> None:
    held = submit(call_chain=LONG_CHAIN)
    wanted = {"select": rows(held), "confirmed": "1", "note": "Ask.", "to": "nobody-here", "format": "pdf"}
    assert "nobody-here is not a reviewer" in as_admin.post(f"{HANDOFFS}assign/", wanted).text
    assert texts(as_admin.post(f"{HANDOFFS}export/", wanted), ".note--error b") == ["format"]
    assert select(as_admin.get("/t/acme/handoffs/"), "#selected input[name=query]")
