"""The models of a business rule and of a set of rules, and the sets that are shipped as examples."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

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


MOST_CONDITIONS = 10


class Condition(BaseModel):
    """A comparison of a field of the data with `threshold`, or with the value at `compare_field` if it is set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    operator: Operator
    threshold: Any = None
    compare_field: str | None = None


class AllConditions(BaseModel):
    """A list of conditions that must all be met."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    all: list[Condition] = Field(min_length=1, max_length=MOST_CONDITIONS)


class AnyCondition(BaseModel):
    """A list of conditions of which at least one must be met."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    any: list[Condition] = Field(min_length=1, max_length=MOST_CONDITIONS)


def _kind(given: object) -> str:
    for kind in ("all", "any"):
        if (isinstance(given, dict) and kind in given) or hasattr(given, kind):
            return kind
    return "one"


When = Annotated[
    Annotated[Condition, Tag("one")] | Annotated[AllConditions, Tag("all")] | Annotated[AnyCondition, Tag("any")],
    Discriminator(_kind),
]

"""The condition of a rule. Lists hold plain conditions, so that the form of the page can show every `when`."""


class BusinessRule(BaseModel):
    """A rule for the data of a handoff type.

    `field` and `compare_field` are dotted paths into the data. Every value at `field` must satisfy the rule: the value
    is compared with the value at `compare_field` if it is set, or else with `threshold`. `operator` is ignored if the
    type of the rule is `required`. The rule applies to the types in `output_types`, or to all types if `output_types`
    is None, and only if `when` is met or None.
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
    when: When | None = None
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


def build_signal_rules() -> BusinessRuleSet:
    """Return the rules for a trading signal."""
    of_type = ["Signal"]
    return BusinessRuleSet(
        set_id="signal_validation_v1",
        name="Signals",
        rules=[
            BusinessRule(
                rule_id="confidence_range",
                name="The confidence is a share",
                rule_type=BusinessRuleType.RANGE,
                field="confidence",
                operator=Operator.BETWEEN,
                threshold=[0.0, 1.0],
                output_types=of_type,
            ),
            BusinessRule(
                rule_id="direction_valid",
                name="The direction is one that can be traded",
                rule_type=BusinessRuleType.RANGE,
                field="direction",
                operator=Operator.IN,
                threshold=["LONG", "SHORT", "FLAT"],
                output_types=of_type,
            ),
            _build_required_rule("rationale_required", "A signal says why", "rationale", of_type),
        ],
    )


def build_cmt_rules() -> BusinessRuleSet:
    """Return the rules for a market assessment."""
    of_type = ["CMTAssessmentResponse"]
    return BusinessRuleSet(
        set_id="cmt_validation_v1",
        name="Assessments",
        rules=[
            _build_required_rule("thesis_required", "An assessment has a thesis", "thesis", of_type),
            BusinessRule(
                rule_id="system_health_valid",
                name="The health is a traffic light",
                rule_type=BusinessRuleType.RANGE,
                field="system_health",
                operator=Operator.IN,
                threshold=["green", "amber", "red"],
                output_types=of_type,
            ),
            _build_required_rule("layers_non_empty", "An assessment has at least one layer", "layers", of_type),
        ],
    )


def _build_required_rule(rule_id: str, name: str, field: str, of_type: list[str]) -> BusinessRule:
    return BusinessRule(
        rule_id=rule_id, name=name, rule_type=BusinessRuleType.REQUIRED, field=field, output_types=of_type
    )
