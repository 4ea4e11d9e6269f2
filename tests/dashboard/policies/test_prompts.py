"""Tests of the prompts page: read the shipped prompts, edit and delete own prompts, and dry runs with their cost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.policies.labels import TITLES, shipped_parts, shipped_text
from handoffaudit.handoffs import dry_run_prompts
from handoffaudit.handoffs.models import Handoff, ModelSpend, Trial
from handoffaudit.policy.kinds import prompts
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.validation.prompts.question import LONGEST_PROMPT, Use
from tests.pages import Source, attributes, links, only, raw_text, select, text_of, texts

PAGE = "/t/acme/prompts/"
HTMX = {"HX-Request": "true", "HX-Target": "prompts"}
NAME = "grounding type:deal_data"
TEXT = "You check offers.\nIs every amount in the price list?\nLeave wording alone."


@pytest.fixture
def offers(tenant: Tenant) -> PromptRow:
    """Save one prompt as version 1, and return its row."""
    row = PromptRow(Use.GROUNDING, TEXT, handoff_type="deal_data")
    prompts.save(tenant=tenant, base_version=0, rows=[row], actor="ada")
    return row


@pytest.fixture
def with_key(settings: Any) -> None:
    settings.ANTHROPIC_API_KEY = "sk-of-the-tests"
    # Nobody listens there: what these tests look at asks nothing.
    settings.MODEL_BASE_URL = "http://127.0.0.1:9"


def edited(**changed: Any) -> dict[str, Any]:
    sent = {"row": NAME, "use": "grounding", "scope": "type", "name": "deal_data", "text": TEXT, "base_version": 1}
    return sent | {"tried": "50"} | changed


def added_one(**changed: Any) -> dict[str, Any]:
    return edited(row="", base_version=0) | changed


def row_of(tenant: Tenant, name: str = NAME) -> PromptRow | None:
    return prompts.current(tenant).row(name)


def at_field(page: Source, field: str) -> str:
    return text_of(page, f"#help_{field}")


def text_area(page: Source) -> str:
    return raw_text(page, "textarea#id_text")


def test_a_new_prompt_is_for_all_handoffs_unless_they_have_one(as_admin: Client, tenant: Tenant) -> None:
    def chosen() -> str:
        page = as_admin.get(PAGE, {"add": "grounding"})
        (value,) = attributes(page, "select[name=scope] option[selected]", "value")
        return value

    assert chosen() == "all"
    prompts.save(tenant=tenant, base_version=0, rows=[PromptRow(Use.GROUNDING, TEXT)], actor="ada")
    assert chosen() == "type"


def test_the_help_of_a_prompt_is_two_sentences(as_admin: Client) -> None:
    page = as_admin.get(PAGE, {"add": "grounding"})
    assert "at most 20,000 characters. The text below is added to every prompt." in text_of(page)


def test_everybody_reads_what_is_asked_and_what_is_always_added(tenant: Tenant, viewer: Person) -> None:
    client = Client()
    client.force_login(viewer)
    page = client.get(PAGE, {"add": "grounding"}).text
    for use in Use:
        for text in (TITLES[use], shipped_text(use), shipped_parts(use).frame, shipped_parts(use).answer):
            assert escape(text) in page
    assert "it cannot be changed" in page
    assert not select(only(page, "main"), "form")
    assert "Start from the shipped prompt" not in page


@pytest.mark.parametrize("use", Use)
def test_one_s_own_begins_as_the_shipped_one(as_admin: Client, use: Use) -> None:
    assert f'href="{PAGE}?add={use}"' in as_admin.get(PAGE).text
    page = as_admin.get(PAGE, {"add": use.value}).text
    assert text_area(page) == shipped_text(use)
    form = only(page, "form.prompts-form")
    assert shipped_parts(use).frame in form.text()
    assert ("Start dry run" in text_of(form)) is (use is not Use.REPAIR)


@pytest.mark.parametrize(
    ("scope", "name", "kept"),
    [
        ("type", "deal_data", PromptRow(Use.GROUNDING, TEXT, handoff_type="deal_data")),
        ("workflow", " desk-* ", PromptRow(Use.GROUNDING, TEXT, workflow="desk-*")),
        ("all", "", PromptRow(Use.GROUNDING, TEXT)),
    ],
)
def test_a_prompt_is_added(as_admin: Client, tenant: Tenant, scope: str, name: str, kept: PromptRow) -> None:
    sent = added_one(scope=scope, name=name, text=TEXT.replace("\n", "\r\n") + "\r\n", note="offers")
    assert as_admin.post(f"{PAGE}save/", sent).status_code == 302
    assert prompts.current(tenant).rows == (kept,)
    page = as_admin.get(PAGE).text
    told = {"type": "For type deal_data", "workflow": "For workflow desk-*", "all": "For all handoffs"}[scope]
    for text in (told, TEXT, "Version 1, saved by admin", "used for all other handoffs"):
        assert text in page
    again = as_admin.post(f"{PAGE}save/", sent | {"base_version": 1})
    assert again.status_code == 400
    assert "There is already such a prompt." in at_field(again.text, "name")


def test_it_is_edited_and_begun_anew_from_the_shipped_one(as_admin: Client, tenant: Tenant, offers: PromptRow) -> None:
    page = as_admin.get(PAGE, {"edit": NAME}).text
    assert text_area(page) == TEXT
    (link,) = links(page, 'a[href^="/t/acme/prompts/?edit="][href$="shipped=1"]')
    assert text_area(as_admin.get(link)) == shipped_text(Use.GROUNDING)
    assert as_admin.post(f"{PAGE}save/", edited(text="Is it so?")).status_code == 302
    assert row_of(tenant) == PromptRow(Use.GROUNDING, "Is it so?", handoff_type="deal_data")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("text", "  ", "A prompt needs a text."),
        ("text", "x" * (LONGEST_PROMPT + 1), "Use at most 20,000."),
        ("text", "one\ntwo \u202e", "Line 2 has an invisible character (U+202E)"),
        ("name", "", "needs a handoff type"),
        ("name", "x" * 201, "at most 200"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_what_is_wrong_is_told_at_its_field_and_nothing_typed_is_lost(
    as_admin: Client, tenant: Tenant, field: str, value: str, told: str, headers: dict[str, str]
) -> None:
    sent = added_one(note="kept note") | {field: value}
    response = as_admin.post(f"{PAGE}save/", sent, headers=headers)
    assert response.status_code == 400
    assert told in at_field(response.text, field)
    assert escape(sent["text"]) in response.text
    assert "kept note" in response.text
    assert prompts.current(tenant).version == 0


def test_a_name_beside_all_handoffs_is_refused(as_admin: Client) -> None:
    response = as_admin.post(f"{PAGE}save/", added_one(scope="all"))
    assert response.status_code == 400
    assert "The prompt is for all handoffs." in at_field(response.text, "name")


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_stale_edit_shows_both_line_by_line_and_can_be_made_again(
    as_admin: Client, tenant: Tenant, offers: PromptRow, headers: dict[str, str]
) -> None:
    theirs = PromptRow(Use.GROUNDING, TEXT.replace("price", "parts"), handoff_type="deal_data")
    prompts.save(tenant=tenant, base_version=1, rows=[theirs], actor="bob")
    response = as_admin.post(f"{PAGE}save/", edited(text=TEXT.replace("price", "word")), headers=headers)
    assert response.status_code == 409
    for text in ("bob saved version 2 while you were editing", "Save mine on version"):
        assert text in response.text
    cells = texts(response, "td")
    at = cells.index("Is every amount in the parts list?")
    assert cells[at + 1] == "Is every amount in the word list?"
    assert row_of(tenant) == theirs


def test_a_prompt_is_deleted_from_its_editor(as_admin: Client, tenant: Tenant, offers: PromptRow) -> None:
    assert "Delete this prompt" in as_admin.get(PAGE, {"edit": NAME}).text
    assert as_admin.post(f"{PAGE}delete/", edited(base_version=0)).status_code == 409
    assert as_admin.post(f"{PAGE}delete/", edited()).status_code == 302
    assert prompts.current(tenant).rows == ()
    assert as_admin.post(f"{PAGE}delete/", edited(base_version=2)).status_code == 409


def test_the_history_tells_the_lines_that_changed_and_leads_back(
    as_admin: Client, tenant: Tenant, offers: PromptRow
) -> None:
    changed = TEXT.replace("price list", "catalogue") + "\nAnswer briefly."
    as_admin.post(f"{PAGE}save/", edited(text=changed))
    page = as_admin.get("/t/acme/policies/history/?kind=prompts").text
    for text in (
        "grounding, type deal_data",
        "line 2 <del>Is every amount in the price list?</del>",
        "<ins>Is every amount in the catalogue?</ins>",
        "line 4 added: <ins>Answer briefly.</ins>",
    ):
        assert text in page
    assert "Leave wording alone." not in text_of(page).partition("Version 1 ")[0]
    assert as_admin.post(f"{PAGE}revert/", {"to_version": "1", "base_version": "2"}).status_code == 302
    assert row_of(tenant) == offers


def test_names_and_texts_are_shown_as_text_and_cut(as_admin: Client, tenant: Tenant) -> None:
    row = PromptRow(Use.CRITIQUE, "<b>bold</b> " + "x" * 5000, workflow="<i>w</i>" + "w" * 150)
    prompts.save(tenant=tenant, base_version=0, rows=[row], actor="ada")
    for path in ("", "history/", f"?edit={row.name}", "compare/?from=0&to=1"):
        page = as_admin.get(f"{PAGE}{path}", follow=True).text
        for sign in ("<b>bold", "<i>w"):
            assert sign not in page
    assert "All of it" in as_admin.get(PAGE).text


def test_the_cost_is_told_and_nothing_begins_before_it_is_agreed_to(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], with_key: None
) -> None:
    for number in range(3):
        submit(handoff_type="deal_data", data={"amount": number})
    Handoff.objects.update(state="accepted")
    told = as_admin.post(f"{PAGE}try/", added_one(note="kept note"))
    assert told.status_code == 200
    assert not Trial.objects.exists()
    for text in ("The LLM is not asked yet", "The draft is for 3 of 3 handoffs", "6 questions", "kept note"):
        assert text in " ".join(told.text.split())
    assert "<b>10 USD</b> are left" in told.text
    (agreed,) = attributes(told, "[name=agreed]", "value")
    for less in ("0.000001", "nan", "inf", "-inf", "1e999"):
        assert as_admin.post(f"{PAGE}try/", added_one(agreed=less)).status_code == 200
        assert not Trial.objects.exists()
    begun = as_admin.post(f"{PAGE}try/", added_one(agreed=agreed))
    trial = Trial.objects.get()
    assert (begun.status_code, begun.url) == (302, f"/t/acme/trials/{trial.pk}/")
    assert (trial.kind, trial.total, trial.most, trial.finished_at) == ("prompts", 3, 50, None)
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/").text
    assert "out of today&#x27;s budget" in page or "out of today's budget" in page
    back = as_admin.get(PAGE, {"trial": str(trial.pk)}).text
    assert text_area(back) == TEXT


def test_what_would_cost_more_than_is_left_does_not_begin(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], with_key: None
) -> None:
    submit(handoff_type="deal_data")
    Handoff.objects.update(state="accepted")
    ModelSpend.objects.create(tenant=tenant, day=timezone.now().date(), usd=9.9999)
    told = as_admin.post(f"{PAGE}try/", added_one(agreed="5"))
    assert told.status_code == 200
    assert "the dry run may cost more than is left of today" in told.text
    assert "Ask the LLM" not in told.text
    assert not Trial.objects.exists()


def test_without_a_key_there_is_no_trial(as_admin: Client, tenant: Tenant, settings: Any) -> None:
    settings.ANTHROPIC_API_KEY = ""
    told = as_admin.post(f"{PAGE}try/", added_one())
    assert told.status_code == 400
    assert "No key is set for the LLM." in told.text


def test_where_no_handoff_came_it_is_told_without_asking(as_admin: Client, tenant: Tenant, with_key: None) -> None:
    assert as_admin.post(f"{PAGE}try/", added_one(tried="500")).status_code == 302
    trial = Trial.objects.get()
    assert (trial.most, trial.total) == (dry_run_prompts.MOST, 0)
    assert "No handoff to judge" in as_admin.get(f"/t/acme/trials/{trial.pk}/").text


def test_the_draft_of_a_trial_is_saved_from_its_page(as_admin: Client, tenant: Tenant, with_key: None) -> None:
    as_admin.post(f"{PAGE}try/", added_one(note="tried before"))
    trial = Trial.objects.get()
    assert as_admin.post(f"/t/acme/trials/{trial.pk}/save/").status_code == 302
    now = prompts.current(tenant)
    assert (now.version, now.note, now.rows[0].text) == (1, "tried before", TEXT)


def test_what_a_model_could_not_be_asked_about_is_told_on_the_trial_s_page(
    as_admin: Client, tenant: Tenant, submit: Callable[..., Handoff], with_key: None
) -> None:
    as_admin.post(f"{PAGE}try/", added_one())
    trial = Trial.objects.get()
    Trial.objects.update(total=5, judged=5, unasked=2, flips={"accepted>rejected": 1})
    page = as_admin.get(f"/t/acme/trials/{trial.pk}/")
    assert "The LLM could not be asked about 2 of them: they count as neither." in text_of(page)
    assert "1 verdict would change, 2 would not." in text_of(page)
    assert "1 verdict" in texts(page, "b")
    Trial.objects.update(flips={})
    assert "the other 3 are judged with the draft as they are now" in text_of(
        as_admin.get(f"/t/acme/trials/{trial.pk}/")
    )


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_with_htmx_only_the_part_comes_back(as_admin: Client, headers: dict[str, str]) -> None:
    part = as_admin.get(PAGE, {"add": "critique"}, headers=headers).text
    assert part.lstrip().startswith('<div id="prompts">') is bool(headers)


@pytest.mark.parametrize(
    ("changed", "covered"),
    [
        ({"text": "New."}, ["deal_data"]),
        ({"name": "research_result"}, ["deal_data", "research_result"]),
        ({"scope": "all", "name": ""}, []),
    ],
)
def test_a_dry_run_covers_the_handoffs_that_lose_the_prompt(
    changed: dict[str, str], covered: list[str], as_admin: Client, offers: PromptRow, with_key: None
) -> None:
    as_admin.post(f"{PAGE}try/", edited(**changed))
    assert Trial.objects.get().handoff_types == covered
