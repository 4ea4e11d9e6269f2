"""Tests of the rules page: read, add, edit and delete sets and rules, the JSON form, and the history."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.policy.kinds import rules
from handoffaudit.policy.rules import example_sets
from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet
from tests.pages import Source, attributes, only, select, text_of

PAGE = "/t/acme/rules/"
HTMX = {"HX-Request": "true", "HX-Target": "rules"}
RULE: dict[str, Any] = {
    "editor": "rule",
    "set": "deals",
    "rule": "",
    "rule_id": "price_limit",
    "name": "The price is within the limit",
    "description": "",
    "rule_type": "range",
    "field": "price",
    "operator": "le",
    "threshold": "100",
    "compare_field": "",
    "severity": "error",
    "output_types": "deal_data",
    "enabled": "on",
}


@pytest.fixture
def deals(tenant: Tenant) -> BusinessRuleSet:
    """Save a rule set with one rule as version 1, and return the set."""
    plain = {key: value for key, value in RULE.items() if key not in ("editor", "set", "rule", "compare_field")}
    rule = plain | {"threshold": 100, "output_types": ["deal_data"], "enabled": True, "metadata": {"owner": "desk"}}
    sets = rules.parse([{"set_id": "deals", "name": "Deals", "rules": [rule]}])
    rules.save(tenant=tenant, base_version=0, rows=sets, actor="ada")
    return sets[0]


def edited(**changed: Any) -> dict[str, Any]:
    return RULE | {"rule": "price_limit", "base_version": 1} | changed


def rule_of(tenant: Tenant, rule_id: str = "price_limit") -> BusinessRule:
    (found,) = (rule for one in rules.current(tenant).rows for rule in one.rules if rule.rule_id == rule_id)
    return found


def at_field(page: Source, field: str) -> str:
    return text_of(page, f"#help_{field}")


def test_the_empty_page_says_what_a_rule_is_and_what_to_do(as_admin: Client, viewer: Person) -> None:
    page = as_admin.get(PAGE).text
    for text in ("A rule says what must hold", "add a set", "Examples to begin with", "Signals", "Assessments"):
        assert text in text_of(page)
    client = Client()
    client.force_login(viewer)
    page = client.get(PAGE).text
    assert "An administrator of Acme can add them here." in page
    assert not select(only(page, "main"), "form")


def test_an_example_is_added_with_one_click_and_then_not_offered_again(as_admin: Client, tenant: Tenant) -> None:
    data = {"example": "signal_validation_v1", "base_version": 0}
    response = as_admin.post(f"{PAGE}example/", data)
    assert response.status_code == 302
    page = as_admin.get(PAGE).text
    for text in ("confidence must be between 0 and 1", "must be one of LONG, SHORT, FLAT", "Added Signals."):
        assert text in text_of(page)
    assert "Signal" in page
    offered = attributes(only(page, "section.rules-examples"), "[value]", "value")
    assert "signal_validation_v1" not in offered
    assert 'value="cmt_validation_v1"' in page
    assert rules.current(tenant).rows == (example_sets()[0],)
    again = as_admin.post(f"{PAGE}example/", data)
    assert again.status_code == 409
    assert "admin saved version 1 meanwhile" in again.text


def test_a_set_and_its_first_rule_are_added(as_admin: Client, tenant: Tenant) -> None:
    assert 'name="set_id"' in as_admin.get(PAGE, {"add": "set"}).text
    data = {"editor": "set", "set": "", "set_id": "deals", "name": "Deals", "base_version": 0, "note": "for the desk"}
    response = as_admin.post(f"{PAGE}save/", data)
    assert response.status_code == 302
    page = as_admin.get(response.url).text
    assert "Now write the first rule of the set" in page
    assert 'name="rule_id"' in page
    assert as_admin.post(f"{PAGE}save/", RULE | {"base_version": 1}).status_code == 302
    rule = rule_of(tenant)
    assert (rule.threshold, rule.output_types, rule.compare_field) == (100, ["deal_data"], None)
    page = as_admin.get(PAGE).text
    for text in ("price must be at most 100", "The price is within the limit", "deal_data"):
        assert text in text_of(page)
    assert "for the desk" in as_admin.get("/t/acme/policies/history/?kind=rules").text


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("0.5", 0.5),
        ("LONG", "LONG"),
        ('"5"', "5"),
        ("[1, 2]", [1, 2]),
        ("true", True),
        ("two words", "two words"),
        ("ä€", "ä€"),
        ("null", None),
    ],
)
def test_a_threshold_is_json_or_a_plain_text_and_comes_back_as_typed(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet, typed: str, kept: Any
) -> None:
    operator = "between" if isinstance(kept, list) else "eq"
    response = as_admin.post(f"{PAGE}save/", edited(threshold=typed, operator=operator))
    assert response.status_code == 302, response.text
    assert rule_of(tenant).threshold == kept
    page = as_admin.get(PAGE, {"set": "deals", "rule": "price_limit"})
    assert attributes(page, "[name=threshold]", "value") == [typed]


def test_conditions_on_null_are_shown_so_that_the_rule_can_be_saved_again(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    required = {"rule_type": "required", "threshold": ""}
    condition = {"when_field_1": "currency", "when_operator_1": "ne", "when_threshold_1": "null"}
    assert as_admin.post(f"{PAGE}save/", edited(**required, **condition)).status_code == 302
    page = as_admin.get(PAGE, {"set": "deals", "rule": "price_limit"})
    assert attributes(page, "[name=when_threshold_1]", "value") == ["null"]
    assert attributes(page, "[name=threshold]", "value") == [""]


def test_every_field_of_a_rule_can_be_edited_and_what_has_no_field_stays(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    sent = edited(
        rule_id="price_cap",
        name="Capped",
        description="By the desk.",
        rule_type="invariant",
        field="offer.price",
        operator="lt",
        threshold="",
        compare_field="offer.limit",
        severity="warning",
        output_types="deal_data\r\n\r\nother type\r\n",
    )
    sent.pop("enabled")
    assert as_admin.post(f"{PAGE}save/", sent).status_code == 302
    now = rules.current(tenant)
    assert [rule.rule_id for rule in now.rows[0].rules] == ["price_cap"]
    assert (now.version, now.rows[0].version) == (2, 2)
    rule = rule_of(tenant, "price_cap")
    assert (rule.description, rule.compare_field, rule.output_types) == (
        "By the desk.",
        "offer.limit",
        ["deal_data", "other type"],
    )
    assert (rule.enabled, rule.metadata) == (False, {"owner": "desk"})
    page = as_admin.get(PAGE).text
    for text in ("must be less than the value of offer.limit", "other type", ">off<", "warning"):
        assert text in page


def test_a_rule_for_no_type_stays_for_no_type(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    rule = deals.rules[0].model_copy(update={"output_types": []})
    sets = [deals.model_copy(update={"rules": [rule]})]
    rules.save(tenant=tenant, base_version=1, rows=sets, actor="ada")
    as_admin.post(f"{PAGE}save/", edited(base_version=2, name="A price", output_types=""))
    assert (rule_of(tenant).name, rule_of(tenant).output_types) == ("A price", [])
    as_admin.post(f"{PAGE}save/", edited(base_version=3, output_types="deal_data"))
    assert rule_of(tenant).output_types == ["deal_data"]
    as_admin.post(f"{PAGE}save/", edited(base_version=4, output_types=""))
    assert rule_of(tenant).output_types is None


def test_conditions_are_edited_as_fields_and_shown_in_the_sentence(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    one = {"when_match": "any", "when_field_1": "direction", "when_operator_1": "eq", "when_threshold_1": "LONG"}
    assert as_admin.post(f"{PAGE}save/", edited(**one)).status_code == 302
    assert rule_of(tenant).model_dump(mode="json")["when"] == {
        "field": "direction",
        "operator": "eq",
        "threshold": "LONG",
        "compare_field": None,
    }
    assert "must be at most 100 when direction is LONG</span>" in as_admin.get(PAGE).text
    more = {"when_field_3": "size", "when_operator_3": "gt", "when_compare_field_3": "limit"}
    assert as_admin.post(f"{PAGE}save/", edited(base_version=2, **one, **more)).status_code == 302
    assert "when direction is LONG or size is greater than limit" in as_admin.get(PAGE).text
    editor = as_admin.get(PAGE, {"set": "deals", "rule": "price_limit"}).text
    assert '<option value="any" selected>' in editor
    for name, value in (("when_field_2", "size"), ("when_compare_field_2", "limit"), ("when_field_3", "")):
        assert attributes(editor, f"[name={name}]", "value") == [value]
    assert "when direction is LONG" in as_admin.get("/t/acme/policies/history/?kind=rules").text
    assert as_admin.post(f"{PAGE}save/", edited(base_version=3)).status_code == 302
    assert rule_of(tenant).when is None


@pytest.mark.parametrize(
    ("given", "field", "told"),
    [
        ({"when_field_2": "a..b", "when_operator_2": "eq", "when_threshold_2": "1"}, "when_field_2", "cannot be read"),
        ({"when_field_1": "a", "when_threshold_1": "1"}, "when_operator_1", "operator is null"),
        ({"when_field_1": "a", "when_operator_1": "eq"}, "when_threshold_1", "nothing to compare with"),
        ({"when_field_1": "a", "when_operator_1": "in", "when_threshold_1": "[1"}, "when_threshold_1", "column"),
    ],
)
def test_a_flawed_condition_is_told_at_its_field(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet, given: dict[str, str], field: str, told: str
) -> None:
    response = as_admin.post(f"{PAGE}save/", edited(when_match="all", **given))
    assert response.status_code == 400
    assert told in at_field(response.text, field)
    assert rules.current(tenant).version == 1


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("rule_id", "no id", "Use letters, digits"),
        ("field", "a..b", "cannot be read"),
        ("operator", "", "names no operator"),
        ("operator", "like", "like"),
        ("threshold", "[1, 2", "line 1, column"),
        ("threshold", "", "nothing to compare with"),
        ("threshold", "null", "cannot compare with null"),
        ("severity", "fatal", "Use one of"),
        ("name", "x" * 501, "longer than 500"),
        ("rule_type", "", "Use one of"),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_what_is_wrong_is_told_at_its_field_and_nothing_typed_is_lost(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet, field: str, value: str, told: str, headers: dict[str, str]
) -> None:
    typed = edited(description="kept & whole", note="kept note") | {field: value}
    response = as_admin.post(f"{PAGE}save/", typed, headers=headers)
    assert response.status_code == 400
    assert told in at_field(response.text, field)
    for text in ("kept &amp; whole", "kept note", 'name="base_version" value="1"'):
        assert text in response.text
    assert ("<html" in response.text) is not bool(headers)
    assert rules.current(tenant).version == 1


def test_a_new_rule_without_an_id_gets_one_of_its_name(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    page = as_admin.get(PAGE, {"set": "deals", "add": "rule"}).text
    assert "left empty, the id is made from the name" in at_field(page, "rule_id")
    for version, name in enumerate(("Größe: price limit!", "Price limit", "Price  Limit"), 1):
        sent = RULE | {"rule_id": "", "name": name, "base_version": version}
        assert as_admin.post(f"{PAGE}save/", sent).status_code == 302
    ids = [rule.rule_id for rule in rules.current(tenant).rows[0].rules]
    assert ids == ["price_limit", "groe_price_limit", "price_limit_2", "price_limit_3"]
    nameless = as_admin.post(f"{PAGE}save/", RULE | {"rule_id": "", "name": "规则", "base_version": 4})
    assert nameless.status_code == 400
    assert "Use letters, digits" in at_field(nameless.text, "rule_id")
    cleared = as_admin.post(f"{PAGE}save/", edited(rule_id="", base_version=4))
    assert cleared.status_code == 400


def test_a_rule_of_the_same_id_is_refused(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    response = as_admin.post(f"{PAGE}save/", RULE | {"base_version": 1})
    assert response.status_code == 400
    assert "a unique id" in at_field(response.text, "rule_id")


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_stale_edit_shows_both_and_can_be_made_again(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet, headers: dict[str, str]
) -> None:
    theirs = deals.model_copy(update={"rules": [deals.rules[0].model_copy(update={"threshold": 5555})]})
    rules.save(tenant=tenant, base_version=1, rows=[theirs], actor="bob")
    response = as_admin.post(f"{PAGE}save/", edited(threshold="7777"), headers=headers)
    assert response.status_code == 409
    for text in ("bob saved version 2 while you were editing", "5,555", "7,777", "Save mine on version 2"):
        assert text in response.text
    assert rule_of(tenant).threshold == 5555
    as_admin.post(f"{PAGE}save/", edited(threshold="7777", base_version=2))
    assert rule_of(tenant).threshold == 7777


def test_an_edit_of_a_rule_that_is_gone_can_bring_it_back(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    rules.save(tenant=tenant, base_version=1, rows=[deals.model_copy(update={"rules": []})], actor="bob")
    response = as_admin.post(f"{PAGE}save/", edited(threshold="7"))
    assert response.status_code == 409
    assert "The rule price_limit was deleted. Save to add it again." in response.text
    assert 'value="7"' in response.text
    assert as_admin.post(f"{PAGE}save/", edited(threshold="7", base_version=2)).status_code == 302
    assert rule_of(tenant).threshold == 7


def test_an_edit_in_a_set_that_is_gone_is_told_and_kept(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    rules.save(tenant=tenant, base_version=1, rows=[], actor="bob")
    response = as_admin.post(f"{PAGE}save/", edited(threshold="7777"))
    assert response.status_code == 409
    assert "The set deals no longer exists" in response.text
    assert 'value="7777"' in response.text


def test_rules_and_sets_are_renamed_and_deleted(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    data = {"editor": "set", "set": "deals", "name": "All deals", "base_version": 1}
    assert 'value="Deals"' in as_admin.get(PAGE, {"set": "deals", "edit": "set"}).text
    as_admin.post(f"{PAGE}save/", data)
    assert rules.current(tenant).rows[0].name == "All deals"
    as_admin.post(f"{PAGE}delete/", edited(base_version=2))
    assert rules.current(tenant).rows[0].rules == []
    assert "this set checks nothing" in as_admin.get(PAGE).text
    assert as_admin.post(f"{PAGE}delete/", data | {"base_version": 2}).status_code == 409
    as_admin.post(f"{PAGE}delete/", data | {"base_version": 3})
    assert rules.current(tenant).rows == ()


def test_all_sets_are_pasted_as_json(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    shown = as_admin.get(PAGE, {"json": "1"}).text
    assert "&quot;set_id&quot;: &quot;deals&quot;" in shown
    plain = rules.to_plain(example_sets())
    data = {"editor": "json", "base_version": 1, "note": "from the repository"}
    assert as_admin.post(f"{PAGE}save/", data | {"text": json.dumps(plain)}).status_code == 302
    assert rules.current(tenant).rows == tuple(sorted(example_sets(), key=lambda one: one.set_id))
    as_admin.post(f"{PAGE}save/", data | {"text": json.dumps(plain["sets"][:1]), "base_version": 2})
    assert len(rules.current(tenant).rows) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"sets": [\n  {"set_id": }]}', "line 2, column 14"),
        ('{"rules": []}', "no list of sets"),
        ('{"sets": [{"set_id": "a", "name": "A", "rules": [{"rule_id": "x"}]}]}', "a, rules[0].name: name is missing"),
        ("[" * 3000, "This is not JSON"),
        ('{"sets": [\n {"set_id": "a", "name": "A",\n"set_id" :"b"}]}', 'Line 3: the key "set_id" is there twice'),
        ("null", "no list of sets"),
    ],
)
def test_json_that_cannot_be_saved_is_told_with_its_place_and_kept(
    as_admin: Client, tenant: Tenant, text: str, told: str
) -> None:
    response = as_admin.post(f"{PAGE}save/", {"editor": "json", "base_version": 0, "text": text})
    assert response.status_code == 400
    assert escape(told) in response.text
    assert escape(text) in response.text
    assert rules.current(tenant).version == 0


def test_many_errors_are_not_all_shown(as_admin: Client, tenant: Tenant) -> None:
    text = json.dumps([{"set_id": "a", "name": "A", "rules": [{"rule_id": "x"}] * 90}])
    page = as_admin.post(f"{PAGE}save/", {"editor": "json", "base_version": 0, "text": text}).text
    assert page.count('<li class="field-error">') == 21
    assert "more</li>" in page


def test_a_page_of_many_rules_shows_the_first_and_leads_to_all(as_viewer: Client, tenant: Tenant) -> None:
    rule = {"name": "n", "rule_type": "required", "field": "a"}
    sets = [
        {"set_id": f"s{number}", "name": f"S{number}", "rules": [rule | {"rule_id": f"r{one}"} for one in range(100)]}
        for number in range(5)
    ]
    rules.save(tenant=tenant, base_version=0, rows=rules.parse(sets), actor="ada")
    page = as_viewer.get(PAGE).text
    assert page.count("rules-sentence") == 200
    assert "All 100 rules of S4" in text_of(page)
    assert as_viewer.get(PAGE, {"set": "s4"}).text.count("rules-sentence") == 300


def test_names_of_others_are_shown_as_text_and_cut(as_viewer: Client, tenant: Tenant) -> None:
    rule = {
        "rule_id": "x",
        "name": "<b>bold</b>\u202e" + "n" * 400,
        "rule_type": "cross_check",
        "field": "a" * 300,
        "operator": "in",
        "threshold": ["<i>" + "v" * 900] * 20,
        "output_types": ["t" * 500] * 30,
    }
    sets = rules.parse([{"set_id": "a", "name": "<u>set</u>", "rules": [rule]}])
    rules.save(tenant=tenant, base_version=0, rows=sets, actor="ada")
    for path in ("", "history/", "compare/?from=0&to=1"):
        page = as_viewer.get(f"{PAGE}{path}", follow=True).text
        for sign in ("<b>bold", "<i>v", "<u>set", "\u202e", "v" * 300, "n" * 300, "t" * 300):
            assert sign not in page
    assert "and 25 more" in as_viewer.get(PAGE).text


def test_the_history_tells_rule_by_rule_and_leads_back(
    as_admin: Client, tenant: Tenant, deals: BusinessRuleSet
) -> None:
    as_admin.post(f"{PAGE}save/", edited(threshold="250"))
    as_admin.post(f"{PAGE}save/", edited(rule="", rule_id="other", field="fee", base_version=2))
    page = as_admin.get("/t/acme/policies/history/?kind=rules").text
    for text in ("rule price_limit.threshold", "250", "rule other added", "fee must be at most 100", "set added"):
        assert text in page
    assert "A new tenant has no rules." in page
    assert "fee must be" in as_admin.get(f"{PAGE}compare/", {"from": "1", "to": "3"}).text
    assert as_admin.post(f"{PAGE}revert/", {"to_version": "1", "base_version": "3"}).status_code == 302
    assert rule_of(tenant).threshold == 100
    assert rules.current(tenant).version == 4


def test_with_htmx_only_the_part_comes_back(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    part = as_admin.get(PAGE, {"set": "deals", "rule": "price_limit"}, headers=HTMX)
    assert part.text.lstrip().startswith('<div id="rules">')
    saved = as_admin.post(f"{PAGE}save/", edited(threshold="3"), headers=HTMX)
    assert saved.headers["HX-Push-Url"] == PAGE
    assert "Saved as version 2." in saved.text
    assert "must be at most 3" in saved.text


def test_a_form_without_fields_saves_nothing(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    for data in ({}, {"editor": "json"}, {"editor": "set"}, {"base_version": "1"}, {"base_version": "9" * 5000}):
        assert as_admin.post(f"{PAGE}save/", data).status_code in (400, 409)
        assert as_admin.post(f"{PAGE}try/", data).status_code in (400, 409)
    assert rules.current(tenant).version == 1


def test_no_page_grows_with_what_was_sent(as_admin: Client, tenant: Tenant, deals: BusinessRuleSet) -> None:
    sent = {name: "<" * 1_000_000 for name in (*RULE, "note", "tried") if name not in ("editor", "set", "threshold")}
    for path in ("save", "try"):
        page = as_admin.post(f"{PAGE}{path}/", {"editor": "rule", "set": "deals", "base_version": 1} | sent)
        assert page.status_code == 400
        assert len(page.content) < 5_000_000
