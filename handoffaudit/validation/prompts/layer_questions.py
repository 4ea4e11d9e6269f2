"""Questions of the semantic and the critique layer: is the data supported, the objective met, and the output good."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from handoffaudit.validation.issues import MAX_ISSUES, Severity
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import (
    LONGEST_PART,
    TRUNCATED,
    MalformedAnswer,
    Prompt,
    Question,
    Role,
    Use,
    as_text,
    build_instructions,
    cut_part,
    default_prompt,
    fence,
    parse_answer,
    read_list,
    read_share,
    read_word,
)
from handoffaudit.validation.text import clean, clean_or_empty, show

# A level with more parts is divided into bundles of neighbours.
_MOST_PARTS = 400
_DEEPEST = 12
# The most characters of a part that are compared.
_COMPARED = 20_000
# Less room than this is too small for a part of a value.
_LEAST_ROOM = 200
_SHORTEST_WORD = 3
_WORD = re.compile(r"\w+(?:[.,:-]\w+)*")
_BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?;]) "))

# Keys that span several lines are masked before the text is split.
_OVER_LINES = ("-----BEGIN ", "PuTTY-User-Key-File-")


def select_relevant(context: Any, data: Any, limit: int = LONGEST_PART) -> str:
    """Return the context as text of at most `limit` characters.

    A longer context is reduced to the parts that share the most words and numbers with the data. A mark at the end
    shows the cut. Parts are the fields of an object, the entries of a list and the paragraphs
    of a text, each on its own level.
    """
    if _size(context) <= limit:
        return as_text(context, limit)
    room = limit - len(TRUNCATED)
    text = as_text(_fit(context, frozenset(_words(as_text(data))), room, _DEEPEST), room)
    return text if text.endswith(TRUNCATED) else text + TRUNCATED


def _fit(value: Any, wanted: frozenset[str], room: int, deepest: int) -> Any:
    """Return the part of `value` that fits into `room` characters, the most relevant first."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        return _fit_text(value, wanted, room)
    parts = _parts(value) if deepest else []
    taken: list[Any] = []
    for part in sorted(parts, key=lambda part: -_count_shared_words(part, wanted)):
        size = _size(part)
        if size <= room:
            taken.append(part)
            room -= size
        elif room >= _LEAST_ROOM:
            taken.append(_narrow(part, wanted, room, deepest - 1))
            break
    if isinstance(value, dict):
        return {key: inner for part in taken for key, inner in part.items()}
    return [entry for part in taken for entry in part] if isinstance(value, list) else None


def _narrow(part: Any, wanted: frozenset[str], room: int, deepest: int) -> Any:
    """Return the best parts of a bundle that is too long, or the best content of a single part that is too long."""
    if len(part) > 1:
        return _fit(part, wanted, room, deepest)
    if isinstance(part, list):
        return [_fit(part[0], wanted, room, deepest)]
    ((key, value),) = part.items()
    return {key: _fit(value, wanted, room - _size(key), deepest)}


def _fit_text(text: str, wanted: frozenset[str], room: int) -> str:
    if any(start in text for start in _OVER_LINES):
        text = mask_secrets(text)
    taken: list[str] = []
    for part in sorted(_paragraphs(text), key=lambda part: -_count_shared_words(part, wanted)):
        if len(part) > room:
            # Mask secrets before the cut: half a secret would not be recognised.
            taken.append(cut_part(mask_secrets(part), room) if room > len(TRUNCATED) else "")
            break
        taken.append(part)
        room -= len(part) + 1
    return "\n".join(taken)


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, or its lines or sentences if the text has a single paragraph."""
    found = next((parts for split in _BREAKS if len(parts := split.split(text)) > 1), [text])
    bundled = ["\n".join(bundle) for bundle in _bundles(found)]
    return [part for part in bundled if part]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [dict(bundle) for bundle in _bundles(list(value.items()))]
    return _bundles(value) if isinstance(value, list) else []


def _bundles(parts: list[Any]) -> list[list[Any]]:
    """Return bundles of neighbouring parts, at most as many as are compared."""
    each = -(-len(parts) // _MOST_PARTS) or 1
    return [parts[start : start + each] for start in range(0, len(parts), each)]


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(_text(value))


def _count_shared_words(part: Any, wanted: frozenset[str]) -> int:
    """Count the wanted words in the part. A number counts as two words."""
    found = wanted.intersection(_words(_text(part)[:_COMPARED]))
    return len(found) + sum(1 for word in found if word[0].isdecimal())


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) >= _SHORTEST_WORD or word[0].isdecimal()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value).decode("utf-8", "replace")


LONGEST_REASON = 600

LONGEST_QUOTE = 500


class Doubt(StrEnum):
    UNSUPPORTED = "unsupported"
    FABRICATED = "fabricated"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Doubted:
    """One claim that the LLM doubts.

    `field` is the dotted path of the claim as the LLM wrote it, and `quote` the words of the claim. Both may be empty.
    """

    kind: Doubt
    field: str
    quote: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grounding:
    valid: bool
    doubted: tuple[Doubted, ...] = ()


GROUNDING_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "valid": {"type": "boolean"},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "kind": {"type": "string", "enum": [doubt.value for doubt in Doubt]},
                    "quote": {"type": "string"},
                    "reason": {"type": "string"},
                },
                "required": ["field", "kind", "quote", "reason"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["valid", "issues"],
    "additionalProperties": False,
}


def grounding_question(
    data: Any, context: Any, evidence: Any, custom: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    """Return the question whether `data` is supported. `context` and `evidence` may be empty."""
    chosen = custom or default_prompt(Use.GROUNDING)
    return Question(
        use=Use.GROUNDING,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.GROUNDING, chosen),
        content=grounding_content(data, context, evidence),
        schema=GROUNDING_SCHEMA,
        read=read_grounding,
    )


def grounding_content(data: Any, context: Any, evidence: Any = None) -> str:
    """Return the texts of agents, each part between its own tags."""
    parts = [fence("context", select_relevant(context, data)) if context else "No context is given."]
    if evidence:
        parts.append(fence("evidence", select_relevant(evidence, data)))
    return "\n\n".join([*parts, fence("data", as_text(data))])


def read_grounding(text: str) -> Grounding:
    """Return the LLM's judgement of the data. Raises `MalformedAnswer`."""
    answer = parse_answer(text)
    valid = answer.get("valid")
    if not isinstance(valid, bool):
        raise MalformedAnswer('"valid" is neither true nor false.')
    return Grounding(valid, tuple(_read_doubt(one) for one in read_list(answer, "issues")[:MAX_ISSUES]))


def _read_doubt(issue: Any) -> Doubted:
    """Return one issue; a plain sentence becomes a reason without field and quote."""
    if not isinstance(issue, dict):
        reason = clean(issue, LONGEST_REASON) if isinstance(issue, str) else show(issue)
        return Doubted(Doubt.UNSUPPORTED, "", "", reason)
    kind = read_word(issue, "kind")
    return Doubted(
        kind=Doubt(kind) if kind in set(Doubt) else Doubt.UNSUPPORTED,
        field=clean_or_empty(issue.get("field")),
        quote=clean_or_empty(issue.get("quote"), LONGEST_QUOTE),
        reason=clean_or_empty(issue.get("reason"), LONGEST_REASON),
    )


LONGEST_REASONING = 4000

PASSED: Final = "PASSED"

FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class Objective:
    """The LLM's judgement whether the objective is met.

    `confidence` lies from 0.0 to 1.0.
    """

    met: bool
    reasoning: str
    confidence: float


OBJECTIVE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": [PASSED, FAILED]},
        "reasoning": {"type": "string"},
        "confidence": {"type": "number"},
    },
    "required": ["status", "reasoning", "confidence"],
    "additionalProperties": False,
}


def objective_question(
    objective: str, deliverable: Any, custom: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    """Return the question whether `deliverable` meets `objective`."""
    chosen = custom or default_prompt(Use.OBJECTIVE)
    return Question(
        use=Use.OBJECTIVE,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.OBJECTIVE, chosen),
        content="\n\n".join((fence("objective", as_text(objective)), fence("deliverable", as_text(deliverable)))),
        schema=OBJECTIVE_SCHEMA,
        read=read_objective,
    )


def read_objective(text: str) -> Objective:
    """Return the LLM's judgement of the deliverable. Raises `MalformedAnswer`."""
    answer = parse_answer(text)
    status = read_word(answer, "status").upper()
    if status not in (PASSED, FAILED):
        raise MalformedAnswer('"status" is neither PASSED nor FAILED.')
    reasoning = clean_or_empty(answer.get("reasoning"), LONGEST_REASONING)
    return Objective(status == PASSED, reasoning, read_share(answer, "confidence"))


LONGEST_MESSAGE = 600

LONGEST_CODE = 80


@dataclass(frozen=True, slots=True)
class Remark:
    """One objection of the LLM to the output.

    `code` is the short name that the LLM chose for the objection.
    """

    code: str
    message: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Opinion:
    """The second LLM's opinion.

    `score` lies from 0.0 to 1.0.
    """

    score: float
    remarks: tuple[Remark, ...]
    reasoning: str


OPINION_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "overall_score": {"type": "number"},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "severity": {"type": "string", "enum": ["error", "warning"]},
                },
                "required": ["code", "message", "severity"],
                "additionalProperties": False,
            },
        },
        "reasoning": {"type": "string"},
    },
    "required": ["overall_score", "issues", "reasoning"],
    "additionalProperties": False,
}


def opinion_question(
    output: Any,
    context: Any,
    evidence: Any,
    custom: Prompt | None = None,
    *,
    role: Role = Role.FAST,
    max_cost_usd: float | None = None,
) -> Question:
    """Return the question about `output`; `evidence` and `context` may be empty.

    The question is not asked if it would cost more than `max_cost_usd`.
    """
    chosen = custom or default_prompt(Use.CRITIQUE)
    parts = [fence("output", as_text(output))]
    parts += [fence("evidence", select_relevant(evidence, output))] if evidence else []
    parts += [fence("context", select_relevant(context, output))] if context else []
    return Question(
        use=Use.CRITIQUE,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.CRITIQUE, chosen),
        content="\n\n".join(parts),
        schema=OPINION_SCHEMA,
        read=read_opinion,
        max_cost_usd=max_cost_usd,
    )


def read_opinion(text: str) -> Opinion:
    """Return the opinion in the LLM's text. Raises `MalformedAnswer`."""
    answer = parse_answer(text)
    score = read_share(answer, "overall_score")
    remarks = tuple(_remark(one) for one in read_list(answer, "issues")[:MAX_ISSUES])
    return Opinion(score, remarks, clean_or_empty(answer.get("reasoning"), LONGEST_REASONING))


def _remark(issue: Any) -> Remark:
    if not isinstance(issue, dict):
        message = clean(issue, LONGEST_MESSAGE) if isinstance(issue, str) else show(issue)
        return Remark("issue", message, Severity.WARNING)
    severity = read_word(issue, "severity")
    return Remark(
        code=clean_or_empty(issue.get("code"), LONGEST_CODE) or "issue",
        message=clean_or_empty(issue.get("message"), LONGEST_MESSAGE),
        severity=Severity(severity) if severity in set(Severity) else Severity.WARNING,
    )
