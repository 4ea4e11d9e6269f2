"""Tests of the default strictness table by the words of the specification."""

from handoffaudit.policy.strictness import check_table, parse_rows, to_plain
from handoffaudit.validation.config import ROWS_AS_SHIPPED, TypePolicy

REST = {
    "mode": "enforce",
    "layers": dict.fromkeys(
        ("tokens", "chain", "references", "consistency", "evidence", "grounding", "rules", "semantic", "critique"), True
    ),
    "token_budget": 2000,
    "output_token_budget": 20_000,
    "approval_length": 5,
    "recommended_length": 10,
    "circular_policy": "hold",
    "max_returns": 5,
    "evidence": "where_given",
    "max_uncited_ratio": 0.3,
    "grounding": "warn",
    "confidence_floor": 0.5,
    "max_retries": 2,
    "max_re_retrievals": 1,
    "repair": False,
    "return_repaired": False,
    "auto_escalate_on_critical": True,
    "min_severity_to_remediate": "error",
    "hold_limit_hours": 24,
    "approval_expires_hours": 168,
    "four_eyes": False,
    "fail_mode": "open",
    "objective_confidence": 0.0,
    "careful_above": 0,
    "critique": "outputs",
    "critique_notional_usd": 50_000.0,
    "critique_score_floor": 0.5,
    "critique_model": "fast",
    "critique_max_usd": 0.10,
    "critique_threshold": 0.6,
}
STRICTNESS = {
    "customer_info": "strict",
    "deal_data": "strict",
    "delegation": "strict",
    "handoff": "strict",
    "message": "strict",
    "notification": "lenient",
    "research_result": "strict",
    "status_update": "lenient",
    "*": "strict",
}

OWN = {name: {"token_budget": 20_000} for name in ("delegation", "handoff", "message")}


def test_the_table_as_shipped() -> None:
    assert [to_plain(row) for row in ROWS_AS_SHIPPED] == [
        {"handoff_type": name, "strictness": strictness, **REST, **OWN.get(name, {})}
        for name, strictness in STRICTNESS.items()
    ]


def test_a_saved_table_keeps_its_budget_for_outputs() -> None:
    saved = {field: value for field, value in to_plain(TypePolicy("*")).items() if field != "output_token_budget"}
    (row,) = parse_rows([saved])
    assert (row.token_budget, row.output_token_budget) == (2000, 2000)
    (fresh,) = parse_rows([{"handoff_type": "*"}])
    assert (fresh.token_budget, fresh.output_token_budget) == (2000, 20_000)


def test_the_shipped_rows_stand_in_the_order_of_a_table() -> None:
    assert check_table(ROWS_AS_SHIPPED) == ROWS_AS_SHIPPED
