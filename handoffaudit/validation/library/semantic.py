"""Semantic validation of payloads: ask the caller's LLM whether the context supports the data."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from handoffaudit.validation.json_values import to_json
from handoffaudit.validation.library.logger import get_logger, log_validation
from handoffaudit.validation.prompts import grounding
from handoffaudit.validation.prompts.grounding import Doubted
from handoffaudit.validation.prompts.question import MalformedAnswer, Use, build_instructions, default_prompt
from handoffaudit.validation.verdict import NOT_CHECKED

# The module of the payload imports this module: an import at run time would be circular.
if TYPE_CHECKING:
    from handoffaudit.validation.protocol import HandoffPayload

FAST = "fast"
_MAX_TOKENS = 1024
_LONGEST_WAIT = 60.0
_NO_REASON = "The model does not find the data valid, and gives no reason."


class CompletionService(Protocol):
    """The service of the caller that calls an LLM.

    `completion` takes the chat messages, a model name, a temperature and a limit in tokens, and returns a mapping whose
    `content` is the text that the LLM answered.
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
    Data and context are cut at 10,000 characters each, and secrets in them are masked. An outage lets the payload pass,
    and the issues say so.
    """

    def __init__(self, llm_service: CompletionService) -> None:
        self._llm_service = llm_service

    async def validate(
        self, payload: "HandoffPayload", available_context: Mapping[str, Any] | None = None
    ) -> tuple[bool, list[str]]:
        """Return whether the data is supported, and one line per issue found in it.

        The lines read `path: kind: reason ("quote")`; the kind is `unsupported`, `fabricated` or `contradiction`. The
        result is `(True, ["semantic_validation_unavailable"])` where the service failed, did not answer in time or did
        not answer with the JSON asked for; no error of the service is raised. Without a context, the LLM is asked only
        for contradictions and fabricated points. Each validation is logged as `semantic_validated`.
        """
        valid, issues = await self._ask(payload, available_context)
        log_validation(__name__, "semantic_validated", handoff_id=payload.handoff_id, valid=valid, issues=issues)
        return valid, issues

    async def _ask(self, payload: "HandoffPayload", context: Mapping[str, Any] | None) -> tuple[bool, list[str]]:
        log = get_logger(__name__)
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                answer = await self._llm_service.completion(
                    messages=_messages(payload, context),
                    model=FAST,
                    temperature=0.0,
                    max_tokens=_MAX_TOKENS,
                    metadata=_metadata(payload),
                )
            verdict = grounding.read(answer["content"])
        except MalformedAnswer as error:
            log.warning("the LLM did not answer with the JSON asked for", handoff_id=payload.handoff_id, why=str(error))
            return True, [NOT_CHECKED]
        except Exception as error:  # noqa: BLE001  (the service is the caller's: whatever fails in it is an outage)
            log.warning("the LLM could not be asked", handoff_id=payload.handoff_id, why=type(error).__name__)
            return True, [NOT_CHECKED]
        lines = [_line(one) for one in verdict.doubted]
        return verdict.valid, lines if verdict.valid or lines else [_NO_REASON]


def _messages(payload: "HandoffPayload", context: Mapping[str, Any] | None) -> list[dict[str, str]]:
    told = build_instructions(Use.GROUNDING, default_prompt(Use.GROUNDING))
    return [{"role": "user", "content": f"{told}\n\n{grounding.content(to_json(payload.data), to_json(context))}"}]


def _metadata(payload: "HandoffPayload") -> dict[str, Any]:
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
