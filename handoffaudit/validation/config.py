"""The requirements on handoffs: one policy per handoff type, one for any other type, and their prompts and rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from handoffaudit.validation.issues import Severity
from handoffaudit.validation.prompts.question import Prompt, Role, Use

# Callers that use these types import them: pydantic's models alone take longer to load than everything else here.
if TYPE_CHECKING:
    from handoffaudit.validation.business_rules.rules import BusinessRuleSet
    from handoffaudit.validation.schemas.schema import DataSchema

OPTIONAL_LAYERS = (
    "tokens",
    "chain",
    "references",
    "consistency",
    "evidence",
    "grounding",
    "rules",
    "semantic",
    "critique",
)
ANY_OTHER_TYPE = "*"
OUTPUT: Final = "output"
"""The name of the format of agents' outputs, which has a token budget and a critique of its own."""


class Strictness(StrEnum):
    STRICT = "strict"
    LENIENT = "lenient"


class Mode(StrEnum):
    ENFORCE = "enforce"
    SHADOW = "shadow"


class CircularPolicy(StrEnum):
    """The treatment of a chain that contains its target and gives a reason.

    A circular chain without a reason is rejected under every policy.
    """

    HOLD = "hold"
    REJECT = "reject"
    ALLOW = "allow"


class GroundingPolicy(StrEnum):
    """The severity of a value that no source contains."""

    OFF = "off"
    WARN = "warn"
    REJECT = "reject"


class EvidencePolicy(StrEnum):
    """The handoffs whose claims must be cited: every handoff, or only those that cite at all.

    The reasons are in `docs/decisions/0014-evidence-where-given.md`.
    """

    WHERE_GIVEN = "where_given"
    REQUIRED = "required"


class FailMode(StrEnum):
    """The treatment of a handoff when the LLM is unavailable: open accepts it unverified, closed holds it."""

    OPEN = "open"
    CLOSED = "closed"


class CritiquePolicy(StrEnum):
    """The condition for asking a second LLM.

    `off`: never; `outputs`: where a trigger fires and the format is `output`; `triggered`: where one fires in any
    format; `always`: for every handoff.
    """

    OFF = "off"
    OUTPUTS = "outputs"
    TRIGGERED = "triggered"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """One row of the strictness table.

    `token_budget`, and `output_token_budget` for the format `output`, are in tokens. `approval_length` and
    `recommended_length` are in agents: a longer chain is held, or warned of. `max_uncited_ratio` and `confidence_floor`
    lie from 0.0 to 1.0. A handoff held longer than `hold_limit_hours` is overdue. `repair`: rejected handoffs are
    repaired without a request. `max_retries` and `max_re_retrievals` say how often the sender is asked to try again
    before a person is. `four_eyes`: a decision takes effect once a second person has made the same decision.

    `fail_mode` applies when the LLM is unavailable. An objective met with a confidence below `objective_confidence`
    (0.0 to 1.0; 0.0: never) counts as not met. An objective that has, together with its deliverable, more than
    `careful_above` characters goes to the careful LLM (0: none does). A critique is triggered by
    `critique_notional_usd` or more at stake (USD), or by a score below `critique_score_floor`; it may cost
    `critique_max_usd`, and rejects below `critique_threshold`.
    """

    handoff_type: str
    strictness: Strictness = Strictness.STRICT
    mode: Mode = Mode.ENFORCE
    layers_off: frozenset[str] = frozenset()
    token_budget: int = 2000
    output_token_budget: int = 20_000
    approval_length: int = 5
    recommended_length: int = 10
    circular_policy: CircularPolicy = CircularPolicy.HOLD
    evidence: EvidencePolicy = EvidencePolicy.WHERE_GIVEN
    max_uncited_ratio: float = 0.3
    grounding: GroundingPolicy = GroundingPolicy.WARN
    confidence_floor: float = 0.5
    repair: bool = False
    max_retries: int = 2
    max_re_retrievals: int = 1
    auto_escalate_on_critical: bool = True
    min_severity_to_remediate: Severity = Severity.ERROR
    hold_limit_hours: int = 24
    four_eyes: bool = False
    fail_mode: FailMode = FailMode.OPEN
    objective_confidence: float = 0.0
    careful_above: int = 0
    critique: CritiquePolicy = CritiquePolicy.OUTPUTS
    critique_notional_usd: float = 50_000.0
    critique_score_floor: float = 0.5
    critique_model: Role = Role.FAST
    critique_max_usd: float = 0.10
    critique_threshold: float = 0.6

    def budget_of(self, format_name: str) -> int:
        """Return the budget, in tokens, of a handoff in this format."""
        return self.output_token_budget if format_name == OUTPUT else self.token_budget


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements on one type's data besides its policy.

    `claim_fields` is None where none are configured: every text and number at the top of the data is then a claim.
    `prompts` replace the shipped ones. `strict_files`: a report of a handoff file that was not used is rejected,
    whatever was read in its place.
    """

    rules: tuple["BusinessRuleSet", ...] = ()
    schema: "DataSchema | None" = None
    claim_fields: tuple[str, ...] | None = None
    prompts: Mapping[Use, Prompt] = field(default_factory=dict)
    strict_files: bool = False


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of users, which replace the shipped ones.

    A prompt for a workflow takes precedence over a prompt for a type, and that over a prompt for all. `by_workflow`
    lists name, use and prompt, with the prompts of higher precedence last; one `*` in a name matches any text.
    """

    for_all: Mapping[Use, Prompt] = field(default_factory=dict)
    by_type: Mapping[str, Mapping[Use, Prompt]] = field(default_factory=dict)
    by_workflow: tuple[tuple[str, Use, Prompt], ...] = ()

    def chosen(self, handoff_type: str, workflow: str) -> Mapping[Use, Prompt]:
        of_workflow = {use: prompt for name, use, prompt in self.by_workflow if workflow and _fits(name, workflow)}
        return {**self.for_all, **self.by_type.get(handoff_type, {}), **of_workflow}


def _fits(name: str, workflow: str) -> bool:
    before, star, after = name.partition("*")
    if not star:
        return name == workflow
    long_enough = len(workflow) >= len(before) + len(after)
    return long_enough and workflow.startswith(before) and workflow.endswith(after)


@dataclass(frozen=True, slots=True)
class ValidationConfig:
    """The policies of all types, frozen, with the version of the strictness table.

    `rules` are evaluated for every type: each rule names the types that it applies to. `versions` has the version of
    each kind of policy. `known_agents` are the names that a target may have without a warning; None allows any name.
    """

    version: int
    other: TypePolicy
    types: Mapping[str, TypePolicy] = field(default_factory=dict)
    rules: tuple["BusinessRuleSet", ...] = ()
    schemas: Mapping[str, "DataSchema"] = field(default_factory=dict)
    claim_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prompts: Prompts = field(default_factory=Prompts)
    versions: Mapping[str, int] = field(default_factory=dict)
    known_agents: frozenset[str] | None = None

    def policy_for(self, handoff_type: str) -> TypePolicy:
        return self.types.get(handoff_type, self.other)

    def demands_for(self, handoff_type: str, workflow: str = "") -> Requirements:
        """Return the requirements on a handoff of this type.

        `workflow` is the workflow that the handoff belongs to; empty where its sender names none.
        """
        return Requirements(
            self.rules,
            self.schemas.get(handoff_type),
            self.claim_fields.get(handoff_type),
            self.prompts.chosen(handoff_type, workflow),
        )
