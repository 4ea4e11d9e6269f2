"""What a business rule is, and a set of them."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.issues import Severity


class BusinessRuleType(StrEnum):
    REQUIRED = "required"
    RANGE = "range"
    INVARIANT = "invariant"
    CROSS_CHECK = "cross_check"


class Operator(StrEnum):
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "not_in"
    BETWEEN = "between"


class BusinessRule(BaseModel):
    """One rule. `field` and `compare_field` are dotted paths into the data; `output_types` None: for all types.

    Every value that `field` points at must hold; it is compared with the value at `compare_field` where one is named,
    else with `threshold`. `operator` is not looked at where the rule's type is `required`.
    """

    model_config = ConfigDict(frozen=True)

    rule_id: str
    name: str
    description: str = ""
    rule_type: BusinessRuleType
    field: str
    operator: Operator | None = None
    threshold: Any = None
    severity: Severity = Severity.ERROR
    enabled: bool = True
    output_types: list[str] | None = None
    compare_field: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    def is_for(self, output_type: str) -> bool:
        return self.output_types is None or output_type in self.output_types


class BusinessRuleSet(BaseModel):
    """A named, versioned set of rules."""

    model_config = ConfigDict(frozen=True)

    set_id: str
    name: str
    version: int = 1
    rules: list[BusinessRule] = Field(default_factory=list)

    @property
    def active_rules(self) -> list[BusinessRule]:
        return [rule for rule in self.rules if rule.enabled]
