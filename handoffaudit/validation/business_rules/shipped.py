"""Rule sets that are shipped as examples."""

from handoffaudit.validation.business_rules.models import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator


def build_signal_rules() -> BusinessRuleSet:
    """What must hold of a trading signal."""
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
            _required("rationale_required", "A signal says why", "rationale", of_type),
        ],
    )


def build_cmt_rules() -> BusinessRuleSet:
    """What must hold of a market assessment."""
    of_type = ["CMTAssessmentResponse"]
    return BusinessRuleSet(
        set_id="cmt_validation_v1",
        name="Assessments",
        rules=[
            _required("thesis_required", "An assessment has a thesis", "thesis", of_type),
            BusinessRule(
                rule_id="system_health_valid",
                name="The health is a traffic light",
                rule_type=BusinessRuleType.RANGE,
                field="system_health",
                operator=Operator.IN,
                threshold=["green", "amber", "red"],
                output_types=of_type,
            ),
            _required("layers_non_empty", "An assessment has at least one layer", "layers", of_type),
        ],
    )


def _required(rule_id: str, name: str, field: str, of_type: list[str]) -> BusinessRule:
    return BusinessRule(
        rule_id=rule_id, name=name, rule_type=BusinessRuleType.REQUIRED, field=field, output_types=of_type
    )
