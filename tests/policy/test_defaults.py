"""The table as shipped, by the specification's words."""

from handoffaudit.policy.defaults import ROWS_AS_SHIPPED
from handoffaudit.policy.parsing import to_plain

REST = {
    "mode": "enforce",
    "layers": dict.fromkeys(("tokens", "chain", "references", "consistency", "evidence", "grounding", "rules"), True),
    "token_budget": 2000,
    "approval_length": 5,
    "recommended_length": 10,
    "circular_policy": "hold",
    "evidence": "where_given",
    "max_uncited_ratio": 0.3,
    "grounding": "warn",
    "confidence_floor": 0.5,
    "max_retries": 2,
    "max_re_retrievals": 1,
    "repair": False,
    "auto_escalate_on_critical": True,
    "min_severity_to_remediate": "error",
    "hold_limit_hours": 24,
}
STRICTNESS = {
    "customer_info": "strict",
    "deal_data": "strict",
    "notification": "lenient",
    "research_result": "strict",
    "status_update": "lenient",
    "*": "strict",
}


def test_the_table_as_shipped() -> None:
    assert [to_plain(row) for row in ROWS_AS_SHIPPED] == [
        {"handoff_type": name, "strictness": strictness, **REST} for name, strictness in STRICTNESS.items()
    ]
