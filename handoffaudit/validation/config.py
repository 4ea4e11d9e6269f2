"""What is demanded of a handoff: one policy per handoff type, and one for any other type."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from handoffaudit.validation.issues import Severity

if TYPE_CHECKING:  # loaded by whoever makes some: pydantic's models alone take longer to load than all else here
    from handoffaudit.validation.business_rules import BusinessRuleSet
    from handoffaudit.validation.data_schema import DataSchema

OPTIONAL_LAYERS = ("tokens", "chain", "references", "consistency", "evidence", "grounding", "rules")
ANY_OTHER_TYPE = "*"


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


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """One row of the strictness table.

    `token_budget` in tokens; `approval_length` and `recommended_length` in agents: a longer chain is held, or warned
    of; `max_uncited_ratio` and `confidence_floor` from 0.0 to 1.0; `hold_limit_hours`: after this a held handoff is
    overdue. `repair`: what is rejected is repaired without being asked. `max_retries` and `max_re_retrievals`: how
    often a sender is asked to try again before a person is.
    """

    handoff_type: str
    strictness: Strictness = Strictness.STRICT
    mode: Mode = Mode.ENFORCE
    layers_off: frozenset[str] = frozenset()
    token_budget: int = 2000
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


@dataclass(frozen=True, slots=True)
class Demands:
    """What is demanded of one type's data beside its policy. `claim_fields` is None where none are configured: then
    every text and number at the top of the data is a claim."""

    rules: tuple["BusinessRuleSet", ...] = ()
    schema: "DataSchema | None" = None
    claim_fields: tuple[str, ...] | None = None


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
    versions: Mapping[str, int] = field(default_factory=dict)
    known_agents: frozenset[str] | None = None

    def policy_for(self, handoff_type: str) -> TypePolicy:
        return self.types.get(handoff_type, self.other)

    def demands_for(self, handoff_type: str) -> Demands:
        return Demands(self.rules, self.schemas.get(handoff_type), self.claim_fields.get(handoff_type))
