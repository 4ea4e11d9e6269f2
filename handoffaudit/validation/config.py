"""What is demanded of a handoff: one policy per handoff type, and one for any other type."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

OPTIONAL_LAYERS = ("tokens", "chain", "references", "consistency")
ANY_OTHER_TYPE = "*"


class Strictness(StrEnum):
    STRICT = "strict"
    LENIENT = "lenient"


class Mode(StrEnum):
    ENFORCE = "enforce"
    SHADOW = "shadow"


class CircularPolicy(StrEnum):
    """What becomes of a chain whose target is already in it and that gives a reason; without one it is rejected,
    unless the policy is `allow`."""

    HOLD = "hold"
    REJECT = "reject"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """One row of the strictness table.

    `token_budget` in tokens; `approval_length` and `recommended_length` in agents: a longer chain is held, or warned
    of; `confidence_floor` from 0.0 to 1.0; `hold_limit_hours`: after this a held handoff is overdue.
    """

    handoff_type: str
    strictness: Strictness = Strictness.STRICT
    mode: Mode = Mode.ENFORCE
    layers_off: frozenset[str] = frozenset()
    token_budget: int = 2000
    approval_length: int = 5
    recommended_length: int = 10
    circular_policy: CircularPolicy = CircularPolicy.HOLD
    confidence_floor: float = 0.5
    hold_limit_hours: int = 24


@dataclass(frozen=True, slots=True)
class ValidationConfig:
    """The whole strictness table, frozen, with the version it was loaded at."""

    version: int
    other: TypePolicy
    types: Mapping[str, TypePolicy] = field(default_factory=dict)

    def policy_for(self, handoff_type: str) -> TypePolicy:
        return self.types.get(handoff_type, self.other)
