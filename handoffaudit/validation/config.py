"""The requirements on handoffs: a policy for each handoff type and for any other type, with prompts and rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from handoffaudit.validation.issues import Severity
from handoffaudit.validation.prompts.question import Prompt, Role, Use

# Only callers that use these types import them, because pydantic's models take longer to load than all other imports.
if TYPE_CHECKING:
    from handoffaudit.validation.agents import AgentRole
    from handoffaudit.validation.business_rules import BusinessRuleSet
    from handoffaudit.validation.data_schema import DataSchema

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
"""The name of the format of agents' outputs, which has its own token budget and critique."""


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
    """The treatment of a value that no source contains: no finding, a warning, or a rejection."""

    OFF = "off"
    WARN = "warn"
    REJECT = "reject"


class EvidencePolicy(StrEnum):
    """The handoffs whose claims must cite sources.

    `required`: all handoffs. `where_given`: only outputs, and handoffs with citations, assumptions, evidence or claim
    fields.

    The reasons are in `docs/decisions/0014-evidence-where-given.md`.
    """

    WHERE_GIVEN = "where_given"
    REQUIRED = "required"


class FailMode(StrEnum):
    """The treatment of a handoff if the LLM is unavailable: `open` accepts it unverified, `closed` holds it."""

    OPEN = "open"
    CLOSED = "closed"


class CritiquePolicy(StrEnum):
    """The condition for a critique, the second opinion of the LLM.

    `off`: never. `outputs`: if a trigger applies and the format is `output`. `triggered`: if a trigger applies, in any
    format. `always`: for every handoff.
    """

    OFF = "off"
    OUTPUTS = "outputs"
    TRIGGERED = "triggered"
    ALWAYS = "always"


def describe(
    title: str, text: str, *, ge: float | None = None, le: float | None = None, alias: str | None = None
) -> dict[str, Any]:
    """Return the metadata of a policy field, as keyword arguments of pydantic's `Field`.

    `{limits}` in the text stands for the lowest and the highest value. `handoffaudit.policy.values.model_of` builds the
    pydantic model from the metadata. This module does not call `Field` itself, because loading pydantic takes a third
    of the time that the command line needs to judge a file.
    """
    limits = "" if ge is None or le is None else f"{ge:,} to {le:,}"
    given = {"title": title, "description": text.replace("{limits}", limits), "ge": ge, "le": le, "alias": alias}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TypePolicy:
    """One row of the strictness table. The metadata of each field says what the field means."""

    handoff_type: str = field(metadata=describe("Handoff type", "As senders write it, e.g. deal_data."))
    strictness: Strictness = field(
        default=Strictness.STRICT,
        metadata=describe("Strictness", "lenient skips evidence, grounding and the LLM check"),
    )
    mode: Mode = field(
        default=Mode.ENFORCE,
        metadata=describe("Mode", "shadow accepts, and records the verdict that enforce would give"),
    )
    layers_off: frozenset[str] = field(
        default_factory=frozenset, metadata=describe("Layers", "structure always runs", alias="layers")
    )
    token_budget: int = field(
        default=2000, metadata=describe("Token budget", "tokens; a larger handoff is rejected", ge=1, le=1_000_000)
    )
    output_token_budget: int = field(
        default=20_000,
        metadata=describe(
            "Token budget of outputs",
            "tokens; a larger handoff in the output format is rejected",
            ge=1,
            le=1_000_000,
        ),
    )
    approval_length: int = field(
        default=5,
        metadata=describe(
            "Approval length", "agents; a longer chain is held, unless the handoff is user_approved", ge=1, le=1000
        ),
    )
    recommended_length: int = field(
        default=10, metadata=describe("Recommended length", "agents; a longer chain gets a warning", ge=1, le=1000)
    )
    circular_policy: CircularPolicy = field(
        default=CircularPolicy.HOLD,
        metadata=describe(
            "Circular chains", "what happens if the target is already in the chain and a reason is given"
        ),
    )
    max_returns: int = field(
        default=5,
        metadata=describe(
            "Returns",
            "how often work may return on one route, if no chain is declared; one more return is rejected",
            ge=0,
            le=1000,
        ),
    )
    evidence: EvidencePolicy = field(
        default=EvidencePolicy.WHERE_GIVEN,
        metadata=describe(
            "Citations",
            "required: all handoffs; where_given: only outputs, and handoffs with citations, assumptions, evidence or "
            "claim fields",
        ),
    )
    max_uncited_ratio: float = field(
        default=0.3,
        metadata=describe("Uncited share", "{limits} of all claims; a higher share is rejected", ge=0.0, le=1.0),
    )
    grounding: GroundingPolicy = field(
        default=GroundingPolicy.WARN,
        metadata=describe("Grounding", "what an ungrounded value in a claim causes: a warning, or a rejection"),
    )
    confidence_floor: float = field(
        default=0.5,
        metadata=describe("Confidence floor", "{limits}; a lower confidence gets a warning", ge=0.0, le=1.0),
    )
    repair: bool = field(
        default=False,
        metadata=describe("Automatic repair", "of rejected handoffs; a successful repair becomes a new attempt"),
    )
    return_repaired: bool = field(
        default=False,
        metadata=describe(
            "Return repaired documents",
            "if defaults and hints alone repaired a handoff and its data is unchanged, the answer to its sender has "
            "the repaired document",
        ),
    )
    max_retries: int = field(
        default=2,
        metadata=describe("Retries", "{limits}; how often the sender may retry with the same sources", ge=0, le=100),
    )
    max_re_retrievals: int = field(
        default=1,
        metadata=describe(
            "Re-retrievals", "{limits}; how often the sender may then retrieve other sources", ge=0, le=100
        ),
    )
    auto_escalate_on_critical: bool = field(
        default=True, metadata=describe("Escalate critical findings", "to a person at once, without a retry")
    )
    min_severity_to_remediate: Severity = field(
        default=Severity.ERROR,
        metadata=describe("Remediate from", "less severe findings require no action of the sender"),
    )
    hold_limit_hours: int = field(
        default=24, metadata=describe("Hold limit", "hours until a held handoff is overdue", ge=1, le=8760)
    )
    approval_expires_hours: int = field(
        default=168,
        metadata=describe("Approvals expire", "hours until the sender can no longer use an approval", ge=1, le=8760),
    )
    four_eyes: bool = field(
        default=False,
        metadata=describe("Four eyes", "a decision takes effect when a second person makes the same decision"),
    )
    fail_mode: FailMode = field(
        default=FailMode.OPEN,
        metadata=describe(
            "Without the LLM",
            "if the LLM is unavailable: open accepts the handoff as unverified; closed holds it",
        ),
    )
    objective_confidence: float = field(
        default=0.0,
        metadata=describe(
            "Objective confidence",
            "{limits}; an objective met with a lower confidence counts as not met; 0.0: never; suggested: 0.7",
            ge=0.0,
            le=1.0,
        ),
    )
    careful_above: int = field(
        default=0,
        metadata=describe(
            "Careful LLM above",
            "characters of objective and deliverable together; the careful LLM judges longer texts; 0: never",
            ge=0,
            le=1_000_000,
        ),
    )
    critique: CritiquePolicy = field(
        default=CritiquePolicy.OUTPUTS,
        metadata=describe(
            "Critique",
            "outputs: if triggered, in the output format; triggered: in any format; always: without a trigger",
        ),
    )
    critique_notional_usd: float = field(
        default=50_000.0,
        metadata=describe(
            "Critique from (USD)",
            "USD in notional_usd of the context or the data; this amount or more triggers a critique",
            ge=0,
            le=1e12,
        ),
    )
    critique_score_floor: float = field(
        default=0.5,
        metadata=describe(
            "Critique below score", "{limits}; a lower quality score triggers a critique; 0.0: never", ge=0.0, le=1.0
        ),
    )
    critique_model: Role = field(
        default=Role.FAST,
        metadata=describe("Critique LLM", "the fast or the careful LLM, as named in the settings"),
    )
    critique_max_usd: float = field(
        default=0.10,
        metadata=describe(
            "Critique cost limit (USD)",
            "estimated USD for one critique; a more expensive critique is skipped with a warning",
            ge=0,
            le=100,
        ),
    )
    critique_threshold: float = field(
        default=0.6,
        metadata=describe("Critique threshold", "{limits}; a lower critique score is rejected", ge=0.0, le=1.0),
    )

    def budget_of(self, format_name: str) -> int:
        """Return the budget, in tokens, of a handoff in this format."""
        return self.output_token_budget if format_name == OUTPUT else self.token_budget


# The rows have the order of `handoffaudit.policy.strictness.check_table`.
ROWS_AS_SHIPPED: Final = (
    TypePolicy("customer_info"),
    TypePolicy("deal_data"),
    # These three types are messages between agents, and reports of ten thousand characters and more are common.
    TypePolicy("delegation", token_budget=20_000),
    TypePolicy("handoff", token_budget=20_000),
    TypePolicy("message", token_budget=20_000),
    TypePolicy("notification", strictness=Strictness.LENIENT),
    TypePolicy("research_result"),
    TypePolicy("status_update", strictness=Strictness.LENIENT),
    TypePolicy(ANY_OTHER_TYPE),
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements on the data of one type, in addition to its policy.

    If `claim_fields` is None, every text and number at the top of the data is a claim. However, a text of at most 10
    characters is a claim only if it is cited or assumed. `prompts` replace the shipped prompts. With `strict_files`, a
    report about a handoff file is rejected if the file was not used, even if the agent's response has the result.
    """

    rules: tuple["BusinessRuleSet", ...] = ()
    schema: "DataSchema | None" = None
    claim_fields: tuple[str, ...] | None = None
    prompts: Mapping[Use, Prompt] = field(default_factory=dict)
    strict_files: bool = False


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of users, which replace the shipped prompts.

    Prompts for a workflow take precedence over prompts for a type, and prompts for a type over prompts for all types.
    `by_workflow` lists tuples of workflow name, use and prompt, with the prompts of higher precedence last. A `*` in a
    name matches any text.
    """

    for_all: Mapping[Use, Prompt] = field(default_factory=dict)
    by_type: Mapping[str, Mapping[Use, Prompt]] = field(default_factory=dict)
    by_workflow: tuple[tuple[str, Use, Prompt], ...] = ()

    def choose(self, handoff_type: str, workflow: str) -> Mapping[Use, Prompt]:
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
    """The policies of all types, with the version of the strictness table.

    `rules` holds the rules of all types, because each rule names its types. `versions` has the version of each kind of
    policy. `known_agents` are the names that a target may have without a warning, or None to allow any name. `roles`
    are the declared roles of agents.
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
    roles: Mapping[str, "AgentRole"] = field(default_factory=dict)

    def policy_for(self, handoff_type: str) -> TypePolicy:
        return self.types.get(handoff_type, self.other)

    def demands_for(self, handoff_type: str, workflow: str = "") -> Requirements:
        """Return the requirements on a handoff of this type.

        `workflow` is the workflow that the handoff belongs to, or an empty text if its sender names no workflow.
        """
        return Requirements(
            self.rules,
            self.schemas.get(handoff_type),
            self.claim_fields.get(handoff_type),
            self.prompts.choose(handoff_type, workflow),
        )
