"""The rules layer as a validator."""

from typing import Any

from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.config import Demands
from handoffaudit.validation.layers import rules
from handoffaudit.validation.library.engine import library_issues, record_of, subject_of
from handoffaudit.validation.library.envelopes import LLMEnvelope, LLMResult
from handoffaudit.validation.library.models import ValidationIssue, ValidationLayer


class BusinessRuleValidator:
    """Holds the output against the registered sets; each rule says which types it is for."""

    layer_name = ValidationLayer.BUSINESS_RULE.value

    def __init__(self) -> None:
        self._sets: dict[str, BusinessRuleSet] = {}

    def register(self, rule_set: BusinessRuleSet) -> None:
        """Adds a set, or puts it in the place of the one with the same `set_id`."""
        self._sets[rule_set.set_id] = rule_set

    def validate(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, result: LLMResult | None = None
    ) -> list[ValidationIssue]:
        subject = subject_of(record_of(parsed_output, envelope), Demands(rules=tuple(self._sets.values())))
        return [] if rules.skip(subject) else library_issues(rules.check(subject))
