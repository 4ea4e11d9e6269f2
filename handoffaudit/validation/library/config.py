"""What a pipeline of the library is set to."""

from pydantic import BaseModel, Field

from handoffaudit.validation.remediation_models import RemediationPolicy

FAST_MODEL = "claude-haiku-5-5"


class CritiqueTriggerConfig(BaseModel):
    """When a second model is asked, and what for.

    `confidence_floor`: a quality score below it is reason enough; `max_cost_usd` is estimated before each call;
    `acceptance_threshold`: a critique that scores lower is an error.
    """

    notional_usd_threshold: float = 50_000.0
    confidence_floor: float = 0.5
    always_critique_types: list[str] = Field(default_factory=lambda: ["CMTAssessmentResponse"])
    max_cost_usd: float = 0.10
    critique_model: str = FAST_MODEL
    acceptance_threshold: float = 0.6
    enabled: bool = True


class ValidationConfig(BaseModel):
    """The settings of a whole pipeline, as `ValidationPipeline.from_config` takes them."""

    enabled: bool = True
    max_uncited_ratio: float = Field(default=0.3, ge=0.0, le=1.0)
    critique: CritiqueTriggerConfig = Field(default_factory=CritiqueTriggerConfig)
    remediation_policies: list[RemediationPolicy] = Field(default_factory=list)
    skip_types: list[str] = Field(default_factory=list)

    def applies_to(self, output_type: str) -> bool:
        """Whether outputs of this type are to be validated at all. An output that is not has no result: it has not
        passed."""
        return self.enabled and output_type not in self.skip_types
