"""What compression may take out of a document of each format."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from handoffaudit.validation.paths import Location


@dataclass(frozen=True, slots=True)
class Plan:
    """What may go of a format's document. `dropped` in this order; `session` is the one of them that can be stored as a
    file in place of being dropped, in the folder named at `session_path`; then `summary` is shortened, `prompts` to
    their key phrases, and the long texts under `texts` by whole sentences."""

    dropped: tuple[Location, ...] = ()
    session: Location | None = None
    session_path: Location = ()
    files: Location = ()
    summary: Location | None = None
    prompts: tuple[Location, ...] = ()
    texts: tuple[Location, ...] = ()
    source: Location = ()
    target: Location = ()
    chain: Location | None = None


_HANDOFF = "handoff"
_UNIVERSAL = Plan(
    dropped=(
        (_HANDOFF, "expires_at"),
        (_HANDOFF, "target", "invocation"),
        (_HANDOFF, "target", "expected_phase"),
        (_HANDOFF, "context", "original_prompt"),
        (_HANDOFF, "context", "success_criteria"),
        (_HANDOFF, "payload", "session"),
        (_HANDOFF, "tracing", "tags"),
    ),
    session=(_HANDOFF, "payload", "session"),
    session_path=(_HANDOFF, "source", "session_path"),
    files=(_HANDOFF, "payload", "references", "files"),
    summary=(_HANDOFF, "context", "summary"),
    prompts=((_HANDOFF, "context", "original_prompt"),),
    texts=((_HANDOFF, "payload", "working"),),
    source=(_HANDOFF, "source", "skill"),
    target=(_HANDOFF, "target", "skill"),
    chain=(_HANDOFF, "meta", "handoff_chain"),
)
# what the others are checked against stays: evidence, the context, references, a schema that the sender gives
PLANS: Mapping[str, Plan] = MappingProxyType(
    {
        "universal": _UNIVERSAL,
        "payload": Plan(
            texts=(("data",),), source=("source_agent_id",), target=("target_agent_id",), chain=("call_chain",)
        ),
        "output": Plan(prompts=(("envelope", "instructions"),), texts=(("parsed_output",),)),
        "claude-code": Plan(texts=(("last_assistant_message",),)),
        "delegation": Plan(texts=(("tool", "result"), ("tool_response",))),
        "handoff-file": Plan(texts=(("summary",),)),
    }
)
