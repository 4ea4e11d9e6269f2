"""Handoffs between agents in code: the payload, the strictness of its type, and the gate that accepts or rejects it."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, field_validator, model_validator

from handoffaudit.validation.config import Strictness, TypePolicy
from handoffaudit.validation.errors import HandoffValidationError
from handoffaudit.validation.formats import read
from handoffaudit.validation.formats.messages import MISSING_FIELD, WRONG_TYPE, type_issue
from handoffaudit.validation.formats.payload import NAME
from handoffaudit.validation.issues import Issue, make
from handoffaudit.validation.json_text import to_json
from handoffaudit.validation.layers import LAYERS, History, Layer, Subject, chain, consistency, structure
from handoffaudit.validation.layers.plugins import installed_layers
from handoffaudit.validation.library import get_logger, log_validation
from handoffaudit.validation.library.models import new_id, utc_now
from handoffaudit.validation.pipeline import reject_unread, run
from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.layer_questions import Doubted
from handoffaudit.validation.prompts.question import MalformedAnswer, Use, build_instructions, default_prompt
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.tokenizers import CharacterCounter, TokenCounter, default_counter
from handoffaudit.validation.verdict import NOT_CHECKED, LayerStatus, Verdict

__all__ = [
    "HandoffPayload",
    "HandoffProtocol",
    "HandoffRejectedError",
    "HandoffResult",
    "SemanticValidator",
    "StrictnessConfig",
    "ValidationStrictness",
]

ValidationStrictness = Strictness

Name = Annotated[str, Field(min_length=1)]


class _PayloadStructure:
    """The structure layer with additional demands: a tenant, a chain, and data that is an object.

    The server does not make these demands. It takes the tenant from the API key, derives the chain from the trace, and
    accepts a text as data.
    """

    name = structure.name
    skip = staticmethod(structure.skip)

    def check(self, subject: Subject) -> Iterable[Issue]:
        document = subject.record.document
        for issue in structure.check(subject):
            if issue.location != _DATA or issue.code != WRONG_TYPE.code:
                yield issue
        if not isinstance(document.get("data", {}), dict):
            yield type_issue(_DATA, ["object"], document["data"], "", is_convertible=False)
        for field in _ALWAYS_GIVEN:
            if field not in document:
                message, hint = f"{field} is missing.", f'Add "{field}".'
                yield make(MISSING_FIELD, location=(field,), message=message, hint=hint)


_ALWAYS_GIVEN = ("tenant_id", "call_chain")

_DATA = ("data",)

_STRUCTURE: Layer = _PayloadStructure()

_RULES_OF_A_PAYLOAD: tuple[Layer, ...] = (_STRUCTURE, chain, consistency)

# A payload may have a chain of any length, because `HandoffProtocol` checks the approval of long chains.
_ANY_LENGTH = TypePolicy("*", approval_length=1_000_000)


class HandoffPayload(BaseModel):
    """The payload that one agent sends to the next, in the `payload` format (`docs/formats.md`).

    `source_agent_id`, `target_agent_id`, `tenant_id` and `handoff_type` are texts of at least one character.
    `call_chain` has at least one agent; the source must be in the chain, and the target must not. `data` is an object
    with any values, which are converted to JSON for the checks. `handoff_id` defaults to a new UUID. `confidence` is
    between 0.0 and 1.0 (default 1.0); a value below 0.5 is logged as a warning. `timestamp` defaults to now; a time
    without an offset is in UTC. Additional fields are kept.

    A field of a wrong type or range raises `pydantic.ValidationError`. So does a blocking finding of the layers
    structure, chain and consistency; the message then ends with the rule codes (`docs/codes.md`). The payload does not
    check the approval of a long chain.
    """

    model_config = ConfigDict(extra="allow")

    source_agent_id: Name
    target_agent_id: Name
    tenant_id: Name
    call_chain: Annotated[list[str], Field(min_length=1)]
    handoff_type: Name
    data: dict[str, Any]
    handoff_id: str = Field(default_factory=new_id)
    context_refs: list[str] = Field(default_factory=list)
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    timestamp: datetime = Field(default_factory=utc_now)

    @field_validator("timestamp")
    @classmethod
    def _in_utc(cls, at: datetime) -> datetime:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        verdict = _judge(self, _ANY_LENGTH, None, CharacterCounter(), _RULES_OF_A_PAYLOAD)
        if verdict.structural_issues:
            broken = dict.fromkeys(issue.code for issue in verdict.issues if issue.blocks)
            raise ValueError(f"{'; '.join(verdict.structural_issues)} ({', '.join(broken)})")
        for issue in verdict.issues:
            if issue.code == "confidence.low":
                get_logger(__name__).warning("low_confidence", handoff_id=self.handoff_id, issue=issue.message)
        return self


class HandoffResult(BaseModel):
    """The outcome of one validation of a payload.

    An issue has the form `path: message`. Issues of the LLM have the form that `SemanticValidator.validate` describes.
    `validator_model` is the role of the LLM that was asked (`fast`), or None. A value of a wrong type raises
    `pydantic.ValidationError`, even in a later assignment.
    """

    model_config = ConfigDict(validate_assignment=True)

    valid: StrictBool
    strictness: ValidationStrictness
    structural_issues: list[str] = Field(default_factory=list)
    semantic_issues: list[str] = Field(default_factory=list)
    validated_at: datetime = Field(default_factory=utc_now)
    validator_model: str | None = None


class HandoffRejectedError(HandoffValidationError):
    """Raised when a payload did not pass.

    `result` contains the issues, and `payload` is the rejected payload.
    """

    def __init__(self, result: HandoffResult, payload: HandoffPayload) -> None:
        super().__init__(result, payload)
        self.result = result
        self.payload = payload

    def __str__(self) -> str:
        given, reasons = self.payload, "; ".join([*self.result.structural_issues, *self.result.semantic_issues])
        # A payload that was created without validation may lack any of its fields.
        of_payload = {name: getattr(given, name, "") for name in HandoffPayload.model_fields}
        return (
            f"Handoff rejected [{self.result.strictness.value}]: handoff_id={of_payload['handoff_id']}, "
            f"source={of_payload['source_agent_id']} -> target={of_payload['target_agent_id']}, "
            f"type={of_payload['handoff_type']}, reasons=[{reasons}]"
        )


class StrictnessConfig:
    """The strictness of each handoff type.

    By default, `deal_data`, `customer_info` and `research_result` are strict, and `status_update` and `notification`
    are lenient. A type without an entry is strict.
    """

    def __init__(self) -> None:
        strict = dict.fromkeys(("deal_data", "customer_info", "research_result"), ValidationStrictness.STRICT)
        lenient = dict.fromkeys(("status_update", "notification"), ValidationStrictness.LENIENT)
        self._rules: dict[str, ValidationStrictness] = {**strict, **lenient}

    def get_strictness(self, handoff_type: str) -> ValidationStrictness:
        return self._rules.get(handoff_type, ValidationStrictness.STRICT)

    def register_rule(self, handoff_type: str, strictness: ValidationStrictness) -> None:
        """Set or replace the strictness of a type.

        `strictness` is a `ValidationStrictness` or its value, `strict` or `lenient`; another value raises ValueError.
        """
        self._rules[handoff_type] = ValidationStrictness(strictness)


FAST = "fast"

_MAX_TOKENS = 1024

_LONGEST_WAIT = 60.0

_NO_REASON = "The LLM considers the data invalid, but gives no reason."


class CompletionService(Protocol):
    """The caller's own service, which calls an LLM.

    `completion` receives the chat messages, a model name, a temperature, a limit in tokens, and metadata. The metadata
    has the purpose, the prompt's name, and the id, type and tenant of the handoff. `completion` returns a mapping whose
    `content` is the text of the LLM's answer.
    """

    async def completion(
        self,
        *,
        messages: list[dict[str, str]],
        model: str,
        temperature: float,
        max_tokens: int,
        metadata: dict[str, Any],
    ) -> Mapping[str, Any]: ...


class SemanticValidator:
    """A validator that asks an LLM whether a payload's data is supported by its context.

    The validator makes one call per payload: model `fast`, temperature 0.0, at most 1,024 answer tokens, 60 seconds.
    Data is cut at 10,000 characters. A longer context is reduced to the parts that share the most words and numbers
    with the data. Secrets in data and context are masked. If the service is unavailable, the payload passes with an
    issue that says so.
    """

    def __init__(self, llm_service: CompletionService) -> None:
        self._llm_service = llm_service

    async def validate(
        self, payload: HandoffPayload, available_context: Mapping[str, Any] | None = None
    ) -> tuple[bool, list[str]]:
        """Return whether the data is supported, and one line for each issue.

        The lines read `path: kind: reason ("quote")`, without the parts that the LLM left out; the kind is
        `unsupported`, `fabricated` or `contradiction`. An issue without path and quote is only its reason. The result
        is `(True, ["semantic_validation_unavailable"])` if the service failed, timed out, or did not answer with the
        requested JSON. Errors of the service are never raised. Without a context, the LLM is asked only for
        contradictions and fabricated points. Each validation is logged as `semantic_validated`.
        """
        valid, issues = await self._ask(payload, available_context)
        log_validation(__name__, "semantic_validated", handoff_id=payload.handoff_id, valid=valid, issues=issues)
        return valid, issues

    async def _ask(self, payload: HandoffPayload, context: Mapping[str, Any] | None) -> tuple[bool, list[str]]:
        log = get_logger(__name__)
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                answer = await self._llm_service.completion(
                    messages=_messages(payload, context),
                    model=FAST,
                    temperature=0.0,
                    max_tokens=_MAX_TOKENS,
                    metadata=_payload_metadata(payload),
                )
            verdict = layer_questions.read_grounding(answer["content"])
        except MalformedAnswer as error:
            log.warning("the LLM did not answer with the JSON asked for", handoff_id=payload.handoff_id, why=str(error))
            return True, [NOT_CHECKED]
        except Exception as error:  # noqa: BLE001  (the service belongs to the caller: any failure in it is an outage)
            log.warning("the LLM could not be asked", handoff_id=payload.handoff_id, why=type(error).__name__)
            return True, [NOT_CHECKED]
        lines = [_line(one) for one in verdict.doubted]
        return verdict.valid, lines if verdict.valid or lines else [_NO_REASON]


def _messages(payload: HandoffPayload, context: Mapping[str, Any] | None) -> list[dict[str, str]]:
    instructions = build_instructions(Use.GROUNDING, default_prompt(Use.GROUNDING))
    content = layer_questions.grounding_content(to_json(payload.data), to_json(context))
    return [{"role": "user", "content": f"{instructions}\n\n{content}"}]


def _payload_metadata(payload: HandoffPayload) -> dict[str, Any]:
    return {
        "purpose": "handoff_semantic_validation",
        "prompt": default_prompt(Use.GROUNDING).name,
        "handoff_id": payload.handoff_id,
        "handoff_type": payload.handoff_type,
        "tenant_id": payload.tenant_id,
    }


def _line(doubted: Doubted) -> str:
    """Return one issue as `path: kind: reason ("quote")`."""
    if not doubted.field and not doubted.quote:
        return doubted.reason
    text = ": ".join(part for part in (doubted.field, doubted.kind.value, doubted.reason) if part)
    return f'{text} ("{doubted.quote}")' if doubted.quote else text


class HandoffProtocol:
    """The gate between two agents.

    The engine's layers judge every payload. If the type of the payload is strict and the payload has no structural
    issues, the `semantic_validator` then asks an LLM. Without a `semantic_validator`, a warning is logged instead.
    """

    def __init__(
        self, strictness_config: StrictnessConfig, semantic_validator: SemanticValidator | None = None
    ) -> None:
        self._strictness_config = strictness_config
        self._semantic_validator = semantic_validator

    async def validate(
        self, payload: HandoffPayload, available_context: Mapping[str, Any] | None = None
    ) -> HandoffResult:
        """Validate the current values of the payload and return the result.

        Payloads that were created or changed without validation are checked as well. `available_context` must support
        the data. An invalid payload does not raise an exception. A handoff that the server would hold for a person is
        not valid here, because no person can approve it. Each validation is logged as `handoff_validated` with
        `handoff_id`, `valid` and `issues`.
        """
        strictness = self._strictness_config.get_strictness(_type_of(payload))
        verdict = _judge(payload, TypePolicy("*", strictness=strictness), available_context, default_counter())
        result = HandoffResult(
            valid=False,
            strictness=strictness,
            structural_issues=[*verdict.structural_issues, *_could_not_run(verdict)],
            semantic_issues=verdict.semantic_issues,
            validated_at=verdict.validated_at,
        )
        supported = True
        if strictness is ValidationStrictness.STRICT and not result.structural_issues:
            supported = await self._ask(payload, available_context, result)
        result.valid = supported and not result.structural_issues and not verdict.semantic_issues
        log_validation(
            __name__,
            "handoff_validated",
            handoff_id=str(getattr(payload, "handoff_id", "")),
            valid=result.valid,
            issues=[*result.structural_issues, *result.semantic_issues],
        )
        return result

    async def validate_or_reject(
        self, payload: HandoffPayload, context: Mapping[str, Any] | None = None
    ) -> HandoffPayload:
        """Return the payload itself if it is valid, or else raise HandoffRejectedError."""
        result = await self.validate(payload, context)
        if not result.valid:
            raise HandoffRejectedError(result, payload)
        return payload

    async def _ask(self, payload: HandoffPayload, context: Mapping[str, Any] | None, result: HandoffResult) -> bool:
        if self._semantic_validator is None:
            get_logger(__name__).warning(
                "no semantic validator is configured: only the structure of a strict handoff was validated",
                handoff_id=payload.handoff_id,
            )
            return True
        supported, issues = await self._semantic_validator.validate(payload, context)
        result.semantic_issues = [*result.semantic_issues, *issues]
        result.validator_model = FAST
        return supported


def _judge(
    payload: HandoffPayload,
    policy: TypePolicy,
    context: Mapping[str, Any] | None,
    counter: TokenCounter,
    layers: Iterable[Layer] | None = None,
) -> Verdict:
    """Return the engine's verdict on the current values of the payload."""
    document, given = to_json(payload), to_json(dict(context)) if context else None
    reading = read(document, NAME, Envelope(context=given))
    if reading.record is None:
        return reject_unread(
            reading.issues,
            handoff_id=str(document.get("handoff_id", "")),
            validation_id=new_id(),
            policy=policy,
            policy_version=0,
            output_hash="",
            validated_at=utc_now(),
        )
    subject = Subject(reading.record, policy, History(), utc_now(), counter)
    if layers is None:
        layers = (_STRUCTURE, *LAYERS[1:], *installed_layers())
    return run(subject, validation_id=new_id(), now=utc_now, monotonic=time.monotonic, layers=layers)


def _could_not_run(verdict: Verdict) -> list[str]:
    """Return one line for each layer that could not run, because such a layer must not count as passed."""
    return [
        f"{layer.name}: The layer could not run: {layer.why}"
        for layer in verdict.layers
        if layer.status is LayerStatus.ERROR
    ]


def _type_of(payload: HandoffPayload) -> str:
    given = getattr(payload, "handoff_type", "")
    return given if isinstance(given, str) else ""
