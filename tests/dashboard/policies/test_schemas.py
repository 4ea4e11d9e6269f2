"""Tests of the schemas page: read, edit in place and delete the JSON Schema and claim fields of a type."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.policy.kinds import schemas
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.policy.values import MOST_BYTES
from tests.pages import Source, only, raw_text, select, text_of, texts

PAGE = "/t/acme/schemas/"
HTMX = {"HX-Request": "true", "HX-Target": "schemas"}
SCHEMA = {"type": "object", "required": ["amount"], "properties": {"amount": {"minimum": 0}, "note": {}}}


@pytest.fixture
def deals(tenant: Tenant) -> TypeSchema:
    """Save one schema as version 1, and return its row."""
    plain = {"handoff_type": "deal_data", "schema": SCHEMA, "claim_fields": ["thesis"]}
    (row,) = schemas.from_plain({"rows": [plain]})
    schemas.save(tenant=tenant, base_version=0, rows=[row], actor="ada")
    return row


def edited(**changed: Any) -> dict[str, Any]:
    sent = {"row": "deal_data", "schema": json.dumps(SCHEMA), "claim_fields": "thesis", "base_version": 1}
    return sent | changed


def row_of(tenant: Tenant, handoff_type: str = "deal_data") -> TypeSchema:
    row = schemas.current(tenant).row(handoff_type)
    assert row is not None
    return row


def at_field(page: Source, field: str) -> str:
    return text_of(page, f"#help_{field}")


def test_the_empty_page_says_what_a_schema_does_and_what_to_do(as_admin: Client, viewer: Person) -> None:
    page = as_admin.get(PAGE).text
    assert "A schema says what the data of a handoff type must look like" in page
    assert "start a dry run on past handoffs before you save it" in page
    client = Client()
    client.force_login(viewer)
    page = client.get(PAGE, {"add": "1"}).text
    assert "An administrator of Acme can add them here." in page
    assert not select(only(page, "main"), "form")


def test_a_type_is_added_and_told_in_short(as_admin: Client, tenant: Tenant) -> None:
    assert 'name="handoff_type"' in as_admin.get(PAGE, {"add": "1"}).text
    sent = edited(row="", handoff_type=" deal_data ", base_version=0, note="checked by the desk")
    response = as_admin.post(f"{PAGE}save/", sent)
    assert response.status_code == 302
    row = row_of(tenant)
    assert row.schema is not None
    assert (row.schema.source, row.claim_fields) == (SCHEMA, ("thesis",))
    page = as_admin.get(PAGE).text
    for text in ("deal_data", "object", "requires amount", "2 properties", "thesis", "Version 1, saved by admin"):
        assert text in page
    again = as_admin.post(f"{PAGE}save/", sent | {"base_version": 1})
    assert again.status_code == 400
    assert "The type already has a row" in at_field(again.text, "handoff_type")


def test_formats_are_checked_where_the_box_is_ticked(as_admin: Client, tenant: Tenant, deals: TypeSchema) -> None:
    assert as_admin.post(f"{PAGE}save/", edited(assert_formats="on")).status_code == 302
    row = row_of(tenant)
    assert row.schema is not None
    assert row.schema.assert_formats
    assert "formats checked" in as_admin.get(PAGE).text
    editor = as_admin.get(PAGE, {"edit": "deal_data"}).text
    assert only(editor, "[name=assert_formats][checked]")


def test_a_boolean_schema_is_saved_and_told(as_admin: Client, tenant: Tenant, deals: TypeSchema) -> None:
    assert as_admin.post(f"{PAGE}save/", edited(schema="false")).status_code == 302
    assert row_of(tenant).schema is not None
    assert "no data passes" in as_admin.get(PAGE).text


def test_the_editor_shows_the_schema_as_it_was_written(as_admin: Client, deals: TypeSchema) -> None:
    page = as_admin.get(PAGE, {"edit": "deal_data"}).text
    assert raw_text(page, "textarea#id_schema") == json.dumps(SCHEMA, indent=2)
    assert ">\nthesis</textarea>" in page


@pytest.mark.parametrize(
    ("fields", "nothing", "kept"), [("", "", None), ("", "on", ()), ("a\r\n\r\n b.*.c \r\n", "", ("a", "b.*.c"))]
)
def test_claim_fields_are_a_path_a_line(
    as_admin: Client, tenant: Tenant, deals: TypeSchema, fields: str, nothing: str, kept: tuple[str, ...] | None
) -> None:
    sent = edited(claim_fields=fields) | ({"claims_nothing": nothing} if nothing else {})
    assert as_admin.post(f"{PAGE}save/", sent).status_code == 302
    assert row_of(tenant).claim_fields == kept
    page = as_admin.get(PAGE, {"edit": "deal_data"}).text
    assert ("No claims" in texts(page, "label:has(input[checked])")) is bool(nothing)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("schema", '{\n  "type": object}', "line 2, column 11"),
        ("schema", "[]", "is not an object"),
        ("schema", '{"properties": {"amount": {"type": "number!"}}}', "properties.amount.type"),
        ("schema", '{"$ref": "https://example.com/x.json"}', "$ref points to nothing"),
        ("schema", '{"pattern": "(?=x)"}', "not a supported regular expression"),
        ("claim_fields", "a..b", "cannot be read"),
        ("claim_fields", "\n".join(f"f{number}" for number in range(101)), "at most 100"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_what_is_wrong_is_told_at_its_field_and_nothing_typed_is_lost(
    as_admin: Client, tenant: Tenant, deals: TypeSchema, field: str, value: str, told: str, headers: dict[str, str]
) -> None:
    response = as_admin.post(f"{PAGE}save/", edited(note="kept note") | {field: value}, headers=headers)
    assert response.status_code == 400
    assert told in at_field(response.text, field)
    assert f">\n{escape(value)}</textarea>" in response.text
    assert "kept note" in response.text
    assert schemas.current(tenant).version == 1


def test_paths_and_claiming_nothing_contradict(as_admin: Client, tenant: Tenant, deals: TypeSchema) -> None:
    response = as_admin.post(f"{PAGE}save/", edited(claims_nothing="on"))
    assert response.status_code == 400
    assert "Remove the paths, or untick the box." in at_field(response.text, "claim_fields")


def test_a_row_that_demands_nothing_is_refused(as_admin: Client, tenant: Tenant, deals: TypeSchema) -> None:
    response = as_admin.post(f"{PAGE}save/", edited(schema=" ", claim_fields=""))
    assert response.status_code == 400
    assert "The row has neither a schema nor claim_fields." in response.text


def test_a_schema_over_the_limit_is_refused_and_one_far_over_it_cut(
    as_admin: Client, tenant: Tenant, deals: TypeSchema
) -> None:
    large = json.dumps({"description": "d" * MOST_BYTES})
    response = as_admin.post(f"{PAGE}save/", edited(schema=large))
    assert response.status_code == 400
    assert "256 KiB" in response.text
    huge = as_admin.post(f"{PAGE}save/", edited(schema="x" * 8 * MOST_BYTES))
    assert huge.status_code == 400
    assert len(huge.text) < 5 * MOST_BYTES


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_stale_edit_shows_both_and_can_be_made_again(
    as_admin: Client, tenant: Tenant, deals: TypeSchema, headers: dict[str, str]
) -> None:
    theirs = TypeSchema("deal_data", deals.schema, ("theirs",))
    schemas.save(tenant=tenant, base_version=1, rows=[theirs], actor="bob")
    response = as_admin.post(f"{PAGE}save/", edited(claim_fields="mine"), headers=headers)
    assert response.status_code == 409
    for text in ("bob saved version 2 while you were editing", "Save mine on version"):
        assert text in response.text
    cells = texts(response, "td")
    assert cells[cells.index("theirs") + 1] == "mine"
    assert row_of(tenant).claim_fields == ("theirs",)
    as_admin.post(f"{PAGE}save/", edited(claim_fields="mine", base_version=2))
    assert row_of(tenant).claim_fields == ("mine",)


def test_a_stale_edit_that_is_wrong_too_is_told_both(as_admin: Client, tenant: Tenant, deals: TypeSchema) -> None:
    schemas.save(tenant=tenant, base_version=1, rows=[], actor="bob")
    response = as_admin.post(f"{PAGE}save/", edited(schema="{"))
    assert response.status_code in (400, 409)
    assert "line 1" in at_field(response.text, "schema")
    assert row_count(tenant) == 0


def row_count(tenant: Tenant) -> int:
    return len(schemas.current(tenant).rows)


def test_a_row_is_deleted_from_its_editor(as_admin: Client, tenant: Tenant, deals: TypeSchema) -> None:
    assert "Delete this row" in as_admin.get(PAGE, {"edit": "deal_data"}).text
    assert as_admin.post(f"{PAGE}delete/", edited(base_version=0)).status_code == 409
    assert row_count(tenant) == 1
    assert as_admin.post(f"{PAGE}delete/", edited()).status_code == 302
    assert row_count(tenant) == 0
    assert as_admin.post(f"{PAGE}delete/", edited(base_version=2)).status_code == 409


def test_the_history_tells_what_changed_in_the_schema_and_leads_back(
    as_admin: Client, tenant: Tenant, deals: TypeSchema
) -> None:
    changed = SCHEMA | {"properties": {"amount": {"minimum": 10}, "fee": {}}}
    as_admin.post(f"{PAGE}save/", edited(schema=json.dumps(changed), claim_fields=""))
    page = as_admin.get("/t/acme/policies/history/?kind=schemas").text
    for text in ("schema.properties.amount.minimum", "<ins>10</ins>", "schema.properties.fee added"):
        assert text in page
    assert "every text and number at the top" in page
    assert "schema.properties.note deleted" in page
    assert as_admin.post(f"{PAGE}revert/", {"to_version": "1", "base_version": "2"}).status_code == 302
    assert row_of(tenant) == deals


def test_names_of_others_are_shown_as_text_and_cut(as_admin: Client, tenant: Tenant) -> None:
    names = {f"<b>{number}</b>" + "p" * 300: {} for number in range(400)}
    schema = {"type": "object", "properties": names, "required": list(names)}
    row = {"handoff_type": "<i>t</i>" + "t" * 180, "schema": schema}
    schemas.save(tenant=tenant, base_version=0, rows=schemas.parse([row]), actor="ada")
    schemas.save(tenant=tenant, base_version=1, rows=schemas.parse([{**row, "schema": {"type": "object"}}]), actor="a")
    for path in ("history/", "compare/?from=0&to=1"):
        page = as_admin.get(f"{PAGE}{path}", follow=True).text
        assert len(page) < 60_000
        for sign in ("<b>", "<i>t", "p" * 301):
            assert sign not in page
    schemas.revert(tenant=tenant, to_version=1, base_version=2, actor="ada")
    page = as_admin.get(PAGE).text
    assert "and 394 more" in page
    assert len(page) < 20_000
