"""What a model may not change of a document: who hands what over to whom, and what vouches for it."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from handoffaudit.validation.differing import same
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.repair.editing import placed, without

_ABSENT: Final = object()
_HANDOFF: Final = "handoff"
_META: Final = (_HANDOFF, "meta")

# An approval or a reason that nobody gave, a chain without its loop, a hash that fits: each would undo a check.
ALWAYS: Final[Mapping[str, Sequence[Location]]] = MappingProxyType(
    {
        "payload": (
            *(("handoff_id",), ("source_agent_id",), ("target_agent_id",), ("tenant_id",), ("handoff_type",)),
            *(("call_chain",), ("handoff_reason",), ("user_approved",)),
        ),
        "universal": (
            *((_HANDOFF, "trace_id"), (_HANDOFF, "source", "skill"), (_HANDOFF, "target", "skill")),
            *((_HANDOFF, "context", "problem_type"), (_HANDOFF, "tracing", "parent_span_id")),
            *((*_META, "handoff_chain"), (*_META, "handoff_reason"), (*_META, "user_approved")),
            *((*_META, "payload_hash"), (*_META, "payload_size_bytes")),
        ),
        "output": (
            *(("target_agent_id",), ("parsed_output", "_output_type"), ("envelope", "envelope_id")),
            *(("envelope", "trace_id"), ("envelope", "agent_id"), ("envelope", "tenant_id")),
            *(("envelope", "context"), ("envelope", "retrieved_evidence"), ("envelope", "expected_output_schema")),
        ),
        "claude-code": (
            *(("hook_event_name",), ("session_id",), ("workflow_id",), ("agent_id",), ("agent_type",)),
            *(("tool_name",), ("tool_use_id",), ("tool_input",), ("tool_response",)),
        ),
        "delegation": (
            *(("tool", "name"), ("tool", "parameters"), ("sessionId",), ("workflowId",)),
            *(("hook_event_name",), ("tool_name",), ("tool_input",), ("session_id",), ("workflow_id",)),
        ),
        "handoff-file": (("agent",), ("run_id",), ("next",)),
    }
)
# What the data is held against, and what its sender alone knows: mended only where its form is wrong.
UNLESS_FAULTY: Final[Mapping[str, Sequence[Location]]] = MappingProxyType(
    {
        "payload": (("confidence",), ("timestamp",), ("context_refs",)),
        "universal": (
            *((_HANDOFF, "timestamp"), (_HANDOFF, "expires_at"), (_HANDOFF, "source"), (_HANDOFF, "target")),
            *(
                (_HANDOFF, "context"),
                (_HANDOFF, "payload", "references"),
                (_HANDOFF, "payload", "session", "artifacts"),
            ),
            *(_META, (_HANDOFF, "tracing")),
        ),
        "output": (("envelope",), ("parsed_output", "confidence")),
        "claude-code": (),
        "delegation": (),
        "handoff-file": (("artifacts",),),
    }
)


def may_be_mended(issue: Issue, form: str) -> bool:
    """Whether an issue stands where a model may change something."""
    return not any(_holds(place, issue.location) for place in ALWAYS[form])


def kept(answer: Document, before: Document, form: str, issues: Iterable[Issue]) -> Document:
    """`answer` with all put back that a model may not change of `before`. `issues` are those found in `before`."""
    faulty = [issue.location for issue in issues if _is_of_form(issue)]
    for place in UNLESS_FAULTY[form]:
        answer = _restored(answer, before, place, faulty)
    for place in ALWAYS[form]:
        answer = _restored(answer, before, place, ())
    return answer


def _is_of_form(issue: Issue) -> bool:
    return issue.layer == "structure" and issue.severity in (Severity.ERROR, Severity.CRITICAL)


def _holds(place: Location, inner: Location) -> bool:
    return inner[: len(place)] == place


def _restored(answer: Document, before: Document, place: Location, faulty: Sequence[Location]) -> Document:
    """What is at a faulty place or under it is left as the model wrote it."""
    if any(_holds(wrong, place) for wrong in faulty):
        return answer
    was, now = at(before, place, _ABSENT), at(answer, place, _ABSENT)
    if any(_holds(place, wrong) for wrong in faulty) and isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            answer = _restored(answer, before, (*place, key), faulty)
        return answer
    return answer if _alike(was, now) else _put_back(answer, before, place, was)


def _alike(was: Any, now: Any) -> bool:
    return was is now if _ABSENT in (was, now) else same(was, now)


def _put_back(answer: Document, before: Document, place: Location, was: Any) -> Document:
    if was is _ABSENT:
        found: Document = without(answer, place)
        return found
    for depth in range(1, len(place)):
        if not isinstance(at(answer, place[:depth]), dict):
            answer = placed(answer, place[:depth], at(before, place[:depth]))
    restored: Document = placed(answer, place, was)
    return restored
