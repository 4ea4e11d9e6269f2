"""Tests of the API of every kind of policy: read, saved, applied, and rejected with the place of each error."""

import json
from typing import Any

import httpx
import pytest

from handoffaudit.policy.rules import example_sets, rule_set_to_plain
from tests.api.support import problem, submitted
from tests.handoffs.support import payload

SIGNALS = rule_set_to_plain(example_sets()[0])
AMOUNT = {
    "rule_id": "amount_small",
    "name": "Small amounts",
    "rule_type": "range",
    "field": "amount",
    "operator": "lt",
    "threshold": 100,
}
SET = {"set_id": "desk", "name": "The desk's", "rules": [AMOUNT]}

PROMPT = {"use": "grounding", "handoff_type": "deal_data", "workflow": None, "text": "Is each amount in the list?"}


def put(api: httpx.Client, kind: str, base: int, rows: list[Any], note: str = "") -> httpx.Response:
    listed = "sets" if kind == "rules" else "rows"
    return api.put(f"/{kind}", json={"base_version": base, listed: rows, "note": note})


def test_nothing_is_in_force_as_shipped(api: httpx.Client) -> None:
    nothing = {"version": 0, "changed_by": "", "changed_at": None, "note": ""}
    assert api.get("/rules").json() == nothing | {"sets": []}
    assert api.get("/schemas").json() == nothing | {"rows": []}
    assert api.get("/prompts").json() == nothing | {"rows": []}


def test_rules_are_saved_counted_and_in_force(api: httpx.Client) -> None:
    saved = put(api, "rules", 0, [SIGNALS, SET], note="the desk's limit")
    assert saved.status_code == 200, saved.text
    shown = saved.json()
    assert (shown["version"], shown["note"], shown["changed_by"]) == (1, "the desk's limit", "key sender")
    assert [(one["set_id"], one["version"]) for one in shown["sets"]] == [("desk", 1), (SIGNALS["set_id"], 1)]
    assert api.get("/rules").json() == shown
    tighter = SET | {"rules": [AMOUNT | {"threshold": 50}]}
    again = put(api, "rules", 1, [SIGNALS, tighter]).json()
    assert [one["version"] for one in again["sets"]] == [2, 1]
    verdict = api.get(f"/handoffs/{submitted(api, payload(data={'amount': 70}))}").json()["verdict"]
    assert verdict["outcome"] == "rejected"
    assert "business_rule.range.amount_small" in [issue["code"] for issue in verdict["issues"]]
    assert verdict["policy_versions"] == {"strictness": 0, "rules": 2, "schemas": 0, "prompts": 0, "roles": 0}
    assert verdict["policy_version"] == 0


def test_schemas_are_saved_in_their_own_order_and_in_force(api: httpx.Client) -> None:
    schema = {"type": "object", "properties": {"zeta": {}, "amount": {"maximum": 50}}, "required": ["amount"]}
    row = {
        "handoff_type": "deal_data",
        "schema": schema,
        "assert_formats": False,
        "claim_fields": ["layers.*.key_findings"],
    }
    saved = put(api, "schemas", 0, [row])
    assert saved.status_code == 200, saved.text
    (shown,) = api.get("/schemas").json()["rows"]
    assert json.dumps(shown) == json.dumps(row)
    document = payload(handoff_type="deal_data", data={"amount": 70})
    verdict = api.get(f"/handoffs/{submitted(api, document)}").json()["verdict"]
    assert "schema.maximum" in [issue["code"] for issue in verdict["issues"]]
    assert verdict["policy_versions"]["schemas"] == 1


def test_formats_are_checked_where_the_row_asks_for_it(api: httpx.Client) -> None:
    row = {"handoff_type": "deal_data", "schema": {"properties": {"mail": {"format": "email"}}}}
    document = payload(handoff_type="deal_data", data={"mail": "ada", "note": "x"})
    assert put(api, "schemas", 0, [row]).json()["rows"][0]["assert_formats"] is False
    assert api.post("/validate", json=document).json()["outcome"] == "accepted"
    assert put(api, "schemas", 1, [row | {"assert_formats": True}]).json()["rows"][0]["assert_formats"] is True
    issues = api.post("/validate", json=document).json()["issues"]
    assert ("schema.format", "data.mail") in [(issue["code"], issue["field_path"]) for issue in issues]


@pytest.mark.parametrize(("schema", "outcome"), [(True, "accepted"), (False, "rejected")])
def test_a_schema_may_be_true_or_false(api: httpx.Client, *, schema: bool, outcome: str) -> None:
    saved = put(api, "schemas", 0, [{"handoff_type": "deal_data", "schema": schema}])
    assert saved.json()["rows"][0]["schema"] is schema
    document = payload(handoff_type="deal_data")
    assert api.post("/validate", json=document).json()["outcome"] == outcome


@pytest.mark.parametrize("row", [{"schema": {}, "assert_formats": "yes"}, {"schema": None, "assert_formats": True}])
def test_a_switch_without_a_schema_or_a_value_is_refused(api: httpx.Client, row: dict[str, Any]) -> None:
    refused = problem(put(api, "schemas", 0, [{"handoff_type": "deal_data", "claim_fields": [], **row}]), 422)
    assert "formats" in json.dumps(refused["errors"])


def test_prompts_are_saved_and_shown_in_their_order(api: httpx.Client) -> None:
    ours = PROMPT | {"handoff_type": None, "workflow": "2026-*", "text": "Ask of amounts.\r\n"}
    saved = put(api, "prompts", 0, [PROMPT, ours, {"use": "critique", "text": "Be brief."}], note="offers first")
    assert saved.status_code == 200, saved.text
    shown = api.get("/prompts").json()
    assert shown == saved.json()
    assert (shown["version"], shown["note"], shown["changed_by"]) == (1, "offers first", "key sender")
    assert shown["rows"] == [
        PROMPT,
        ours | {"text": "Ask of amounts."},
        {"use": "critique", "handoff_type": None, "workflow": None, "text": "Be brief."},
    ]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("rules", [SET]), ("schemas", [{"handoff_type": "x", "claim_fields": []}]), ("prompts", [PROMPT])],
)
def test_a_save_on_an_old_version_is_told(api: httpx.Client, kind: str, rows: list[Any]) -> None:
    assert put(api, kind, 0, rows).status_code == 200
    assert problem(put(api, kind, 0, []), 409)["version"] == 1
    assert api.get(f"/{kind}").json()["version"] == 1


WRONG_RULES: list[tuple[list[Any], str, str]] = [
    ([SET | {"rules": [AMOUNT | {"operator": "below"}]}], "desk", "rules[0].operator"),
    ([SIGNALS, SET | {"rules": [AMOUNT, AMOUNT]}], "desk", "rules[1].rule_id"),
    ([SET | {"rules": [AMOUNT | {"threshold": "x" * 30_000}]}], "desk", "rules[0].threshold"),
    ([SET | {"colour": "blue"}], "desk", "colour"),
    ([SET, SET], "desk", "set_id"),
    ([{"name": "no id"}], "set 1", "set_id"),
    ([SET | {"version": 0}], "desk", "version"),
    ([SET | {"rules": [AMOUNT | {"metadata": {"text": "m" * 300_000}}]}], "desk", ""),
    ([SET | {"set_id": f"set-{number}"} for number in range(60)], "?", ""),
]
WRONG_SCHEMAS: list[tuple[list[Any], str, str]] = [
    ([{"handoff_type": "x"}], "x", ""),
    ([{"handoff_type": "*", "claim_fields": ["a"]}], "*", "handoff_type"),
    ([{"handoff_type": " x", "claim_fields": ["a"]}], " x", "handoff_type"),
    ([{"claim_fields": ["a"]}], "?", "handoff_type"),
    ([{"handoff_type": "x", "schema": [], "claim_fields": ["a"]}], "x", "schema"),
    ([{"handoff_type": "x", "schema": {"type": "nothing"}}], "x", "schema.type"),
    ([{"handoff_type": "x", "claim_fields": "a"}], "x", "claim_fields"),
    ([{"handoff_type": "x", "claim_fields": ["a..b["]}], "x", "claim_fields"),
    ([{"handoff_type": "x", "claim_fields": ["a\x00"]}], "x", "claim_fields"),
    ([{"handoff_type": "x", "claim_fields": [f"f{number}" for number in range(101)]}], "x", "claim_fields"),
    ([{"handoff_type": "x", "claim_fields": ["a"], "colour": 1}], "x", "colour"),
    ([{"handoff_type": "x", "claim_fields": ["a"]}] * 2, "x", ""),
    ([{"handoff_type": f"t{number:03}", "claim_fields": ["a"]} for number in range(201)], "t200", ""),
    ([{"handoff_type": "x", "schema": {"description": "d" * 300_000}}], "x", "schema"),
    ([{"handoff_type": name, "schema": {"description": "d" * 200_000}} for name in ("x", "y")], "x", ""),
    ([{"handoff_type": "x", "schema": {"$ref": "https://example.com/schema.json"}}], "x", "schema"),
    ([{"handoff_type": "x", "schema": {"properties": {"a": {"minimum": "low"}}}}], "x", "schema.properties.a.minimum"),
]

WRONG_PROMPTS: list[tuple[list[Any], str, str]] = [
    ([PROMPT | {"use": "poetry"}], "poetry type:deal_data", "use"),
    ([PROMPT | {"workflow": "w"}], "grounding type:deal_data workflow:w", "workflow"),
    ([PROMPT | {"text": " "}], "grounding type:deal_data", "text"),
    ([PROMPT | {"text": "x" * 20_001}], "grounding type:deal_data", "text"),
    ([PROMPT, PROMPT | {"text": "Another."}], "grounding type:deal_data", ""),
    ([PROMPT | {"colour": 1}], "grounding type:deal_data", "colour"),
    ([{"text": "Whose?"}], "? all", "use"),
]


@pytest.mark.parametrize(
    ("kind", "rows", "row", "field"),
    [
        *[("rules", *one) for one in WRONG_RULES],
        *[("schemas", *one) for one in WRONG_SCHEMAS],
        *[("prompts", *one) for one in WRONG_PROMPTS],
    ],
)
def test_what_cannot_be_saved_is_told_with_its_place(
    api: httpx.Client, kind: str, rows: list[Any], row: str, field: str
) -> None:
    told = problem(put(api, kind, 0, rows), 422)
    error = told["errors"][0]
    assert (error["row"], error["field"]) == (row, field)
    alone = {name: error[name] for name in ("field", "value", "remedy")} if len(told["errors"]) == 1 else {}
    assert {name: told[name] for name in ("field", "value", "remedy") if name in told} == alone
    assert error["message"].endswith((".", "…"))
    assert error["remedy"].endswith((".", "?", "…"))
    assert len(json.dumps(told)) < 50_000
    assert api.get(f"/{kind}").json()["version"] == 0


@pytest.mark.parametrize("call", ["schemas", "policies"])
def test_a_key_that_is_there_twice_is_refused_and_a_text_like_one_is_not(api: httpx.Client, call: str) -> None:
    def save(schema: str) -> httpx.Response:
        rows = f'[{{"handoff_type": "deal_data", "schema": {schema}}}]'
        change = {
            "schemas": f'{{"base_version": 0, "rows": {rows}}}',
            "policies": f'{{"base_versions": {{"schemas": 0}}, "policies": {{"schemas": {rows}}}}}',
        }
        return api.put(f"/{call}", content=change[call])

    told = problem(save('{\n"properties": {"a": {}},\n"properties": {"b": {}}}'), 422)
    assert told["detail"] == 'Line 3: the key "properties" is there twice in one object. Keep one of them.'
    title = '\\" {"a": 1, "a": 2}'
    schema = {"title": title, "properties": {"a": {"title": "a"}, "title": {}}, "enum": ["a", "a "]}
    assert save(json.dumps(schema)).status_code == 200
    assert api.get("/schemas").json()["rows"][0]["schema"]["title"] == title


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("rules", SET),
        ("schemas", {"handoff_type": "x", "claim_fields": ["a"]}),
        ("prompts", PROMPT),
        ("strictness", {"handoff_type": "*"}),
    ],
)
def test_an_unknown_field_is_told_with_what_it_was(api: httpx.Client, kind: str, row: dict[str, Any]) -> None:
    told = problem(put(api, kind, 0, [row | {"colour": "blue"}]), 422)
    assert (told["field"], told["value"]) == ("colour", "blue")


@pytest.mark.parametrize("kind", ["rules", "schemas", "prompts"])
@pytest.mark.parametrize("rows", ["x", None, [1], [[]], {}, [None]])
def test_what_is_no_list_of_objects_is_refused(api: httpx.Client, kind: str, rows: Any) -> None:
    problem(put(api, kind, 0, rows), 422)


@pytest.mark.parametrize("kind", ["rules", "schemas"])
@pytest.mark.parametrize("value", ["1e400", "9" * 400, '"\\ud800"', "[" * 60_000 + "]" * 60_000])
def test_hostile_values_are_refused_or_kept(api: httpx.Client, kind: str, value: str) -> None:
    rows = {
        "rules": '{"set_id": "s", "name": "s", "rules": [{"rule_id": "r", "name": "r", "rule_type": "required",'
        f' "field": "a", "metadata": {{"x": {value}}}}}]}}',
        "schemas": f'{{"handoff_type": "x", "schema": {{"const": {value}}}}}',
    }[kind]
    body = f'{{"base_version": 0, "rows": [{rows}], "sets": [{rows}]}}'
    response = api.put(f"/{kind}", content=body)
    assert response.status_code in (200, 400, 422), response.text[:500]
    assert api.get(f"/{kind}").status_code == 200


def test_declared_edges_are_saved_by_source_and_a_wrong_one_is_named(api: httpx.Client) -> None:
    rows = [{"source": "writer", "targets": ["editor"]}, {"source": "planner", "targets": ["writer", "critic"]}]
    saved = put(api, "agents/declared", 0, rows, note="the crew").json()
    assert saved["rows"] == [{"source": "planner", "targets": ["critic", "writer"]}, rows[0]]
    assert api.get("/agents/declared").json() == saved
    refused = problem(put(api, "agents/declared", 1, [{"source": "planner", "targets": []}]), 422)
    assert (refused["errors"][0]["row"], refused["errors"][0]["field"]) == ("planner", "targets")
    problem(put(api, "agents/declared", 0, []), 409)


def test_a_role_is_declared_by_the_caller_and_a_wrong_one_is_named(api: httpx.Client) -> None:
    rows = [{"agent": "crawler", "role": "observer", "declared_by": "somebody else", "declared_at": "2020-01-01"}]
    (saved,) = put(api, "agents/roles", 0, rows).json()["rows"]
    assert (saved["agent"], saved["role"]) == ("crawler", "observer")
    assert saved["declared_by"] != "somebody else"
    assert saved["declared_at"] > "2026"
    more = [{"agent": "crawler", "role": "observer"}, {"agent": "writer", "role": "worker"}]
    assert put(api, "agents/roles", 1, more).json()["rows"][0] == saved
    refused = problem(put(api, "agents/roles", 2, [{"agent": "crawler", "role": "judge"}]), 422)
    assert (refused["errors"][0]["row"], refused["errors"][0]["field"]) == ("crawler", "role")
    problem(put(api, "agents/roles", 0, []), 409)
