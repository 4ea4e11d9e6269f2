"""What is demanded of a handoff: one policy per handoff type, and one for any other type."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from handoffaudit.validation.issues import Severity
from handoffaudit.validation.prompts.question import Prompt, Role, Use

if TYPE_CHECKING:  # loaded by whoever makes some: pydantic's models alone take longer to load than all else here
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
    """What becomes of a chain whose target is already in it and that gives a reason; without one it is rejected."""

    HOLD = "hold"
    REJECT = "reject"
    ALLOW = "allow"


class GroundingPolicy(StrEnum):
    """How grave a value is that stands in no source."""

    OFF = "off"
    WARN = "warn"
    REJECT = "reject"


class EvidencePolicy(StrEnum):
    """Whether claims must be cited always, or only in a handoff that cites at all
    (`docs/decisions/0014-evidence-where-given.md`)."""

    WHERE_GIVEN = "where_given"
    REQUIRED = "required"


class FailMode(StrEnum):
    """What becomes of a handoff that the model could not be asked about: it passes unverified, or is held."""

    OPEN = "open"
    CLOSED = "closed"


class CritiquePolicy(StrEnum):
    """When a second model is asked: never, where a trigger fires and the format is `output`, where one fires in any
    format, or always."""

    OFF = "off"
    OUTPUTS = "outputs"
    TRIGGERED = "triggered"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """One row of the strictness table.

    `token_budget` and `output_token_budget`, the budget of the format `output`, in tokens; `approval_length` and
    `recommended_length` in agents: a longer chain is held, or warned of; `max_uncited_ratio` and `confidence_floor`
    from 0.0 to 1.0; `hold_limit_hours`: after this a held handoff is overdue. `repair`: what is rejected is
    repaired without being asked. `max_retries` and `max_re_retrievals`: how often a sender is asked to try again
    before a person is. `four_eyes`: a decision takes effect once a second person has made the same one.

    `fail_mode`: when the model cannot be asked. `objective_confidence`: an objective met with less confidence counts as
    not met; 0.0: never. `careful_above`: an objective that has more characters together with its deliverable is put to
    the careful model; 0: none is. A critique is triggered by `critique_notional_usd` and more at stake (USD), or by a
    score below `critique_score_floor`; it may cost `critique_max_usd`, and rejects below `critique_threshold`.
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
        """Return the tokens that a handoff in this format may have."""
        return self.output_token_budget if format_name == OUTPUT else self.token_budget


@dataclass(frozen=True, slots=True)
class Requirements:
    """What is demanded of one type's data beside its policy. `claim_fields` is None where none are configured: then
    every text and number at the top of the data is a claim. `prompts` replace those that are shipped. `strict_files`: a
    report of a handoff file that was not used is rejected, whatever was read in its place."""

    rules: tuple["BusinessRuleSet", ...] = ()
    schema: "DataSchema | None" = None
    claim_fields: tuple[str, ...] | None = None
    prompts: Mapping[Use, Prompt] = field(default_factory=dict)
    strict_files: bool = False


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of users, in place of those that are shipped. What is for a workflow goes before what is for a type, and
    that before what is for all. `by_workflow`: name, use and prompt, the ones that go before others last; one `*` in a
    name stands for anything."""

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
    """The policies of all types, frozen, with the version of the strictness table that they were loaded at.

    `rules` are asked for every type: each rule says which it is for. `versions`: of each kind of policy in it.
    `known_agents`: the names that a target may have without a warning; None: any.
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
        """`workflow`: the one that the handoff belongs to, empty where its sender names none."""
        return Requirements(
            self.rules,
            self.schemas.get(handoff_type),
            self.claim_fields.get(handoff_type),
            self.prompts.chosen(handoff_type, workflow),
        )
