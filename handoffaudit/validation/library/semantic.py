"""The question whether what is handed over is supported, put to a model of the caller's."""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from handoffaudit.validation.bounding import MAX_ISSUES
from handoffaudit.validation.library.asking import answered_object, as_text, fenced
from handoffaudit.validation.library.prompts import prompt
from handoffaudit.validation.text import clean

if TYPE_CHECKING:  # the payload's module imports this one
    from handoffaudit.validation.protocol import HandoffPayload

logger = logging.getLogger(__name__)

FAST = "fast"
UNAVAILABLE = "semantic_validation_unavailable"
_PROMPT = "grounding-1"
_MAX_TOKENS = 1024
_LONGEST_WAIT = 60.0
_LONGEST_ISSUE = 600
_NO_REASON = "The model does not find the data valid, and gives no reason."


class CompletionService(Protocol):
    """Whatever calls the model; `content` of its answer is the model's text."""

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
    """Asks once for each payload. An outage lets the payload pass, and the answer says so."""

    def __init__(self, llm_service: CompletionService) -> None:
        self._llm_service = llm_service

    async def validate(
        self, payload: "HandoffPayload", available_context: Mapping[str, Any] | None = None
    ) -> tuple[bool, list[str]]:
        """Whether the data holds, and what does not. `(True, ["semantic_validation_unavailable"])` where no usable
        answer came. Without a context, only contradictions and made-up points are asked for."""
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                answer = await self._llm_service.completion(
                    messages=_messages(payload, available_context),
                    model=FAST,
                    temperature=0.0,
                    max_tokens=_MAX_TOKENS,
                    metadata=_metadata(payload),
                )
            verdict = _judged(answer["content"])
        except Exception as error:  # noqa: BLE001  (the service is the caller's: whatever fails in it is an outage)
            logger.warning("The model could not be asked about a handoff: %s", type(error).__name__)
            return True, [UNAVAILABLE]
        if verdict is None:
            logger.warning("The model's answer about a handoff is not the JSON that was asked for")
            return True, [UNAVAILABLE]
        return verdict


def _messages(payload: "HandoffPayload", context: Mapping[str, Any] | None) -> list[dict[str, str]]:
    parts = [prompt(_PROMPT)]
    if context:
        parts.append(fenced("context", as_text(dict(context))))
    else:
        parts.append("No context is given.")
    parts.append(fenced("data", as_text(payload.data)))
    return [{"role": "user", "content": "\n\n".join(parts)}]


def _metadata(payload: "HandoffPayload") -> dict[str, Any]:
    return {
        "purpose": "handoff_semantic_validation",
        "prompt": _PROMPT,
        "handoff_id": payload.handoff_id,
        "handoff_type": payload.handoff_type,
        "tenant_id": payload.tenant_id,
    }


def _judged(content: object) -> tuple[bool, list[str]] | None:
    """What the model found, or None where the text is not the expected JSON."""
    answer = answered_object(content)
    if answer is None or not isinstance(answer.get("valid"), bool) or not isinstance(answer.get("issues", []), list):
        return None
    valid: bool = answer["valid"]
    issues = [line for line in (_line(one) for one in answer.get("issues", [])[:MAX_ISSUES]) if line]
    return valid, issues if valid or issues else [_NO_REASON]


def _line(issue: object) -> str:
    """One issue as `path: kind: reason`, or as the model wrote it where it wrote a text."""
    if isinstance(issue, dict):
        kept = [issue.get(key) for key in ("field", "kind", "reason")]
        text = ": ".join(part for part in kept if isinstance(part, str) and part)
        quote = issue.get("quote")
        text += f' ("{quote}")' if isinstance(quote, str) and quote else ""
        return clean(text or as_text(issue), _LONGEST_ISSUE)
    return clean(str(issue), _LONGEST_ISSUE)
