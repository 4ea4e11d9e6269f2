"""Business rules: what must hold of the data of a type.

`models` says what a rule is, `parsing` reads sets of them, `judging` holds data against them with `conditions` and
`comparison`, `shipped` has examples.
"""

from handoffaudit.validation.business_rules.models import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator
from handoffaudit.validation.business_rules.parsing import parse_sets
from handoffaudit.validation.business_rules.shipped import build_cmt_rules, build_signal_rules

__all__ = [
    "BusinessRule",
    "BusinessRuleSet",
    "BusinessRuleType",
    "Operator",
    "build_cmt_rules",
    "build_signal_rules",
    "parse_sets",
]
