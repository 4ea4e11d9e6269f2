"""The strictness table as shipped."""

from handoffaudit.policy.parsing import checked_table
from handoffaudit.validation.config import ANY_OTHER_TYPE, Strictness, TypePolicy

ROWS_AS_SHIPPED = checked_table(
    [
        TypePolicy("deal_data"),
        TypePolicy("customer_info"),
        TypePolicy("research_result"),
        # What one agent tells another in words: reports of some ten thousand characters are common.
        TypePolicy("delegation", token_budget=20_000),
        TypePolicy("handoff", token_budget=20_000),
        TypePolicy("message", token_budget=20_000),
        TypePolicy("status_update", strictness=Strictness.LENIENT),
        TypePolicy("notification", strictness=Strictness.LENIENT),
        TypePolicy(ANY_OTHER_TYPE),
    ]
)
