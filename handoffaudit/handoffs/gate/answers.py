"""What the gate answers: its own words, and beside them those of the agent host."""

from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.handoffs.gate.events import Name
from handoffaudit.handoffs.gate.statuses import Status
from handoffaudit.validation.text import clean

# The most that an agent host reads of a text.
LONGEST: Final = 10_000
DENY: Final = "deny"
ASK: Final = "ask"
BLOCK: Final = "block"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the gate decided. `permission` is said of a task before it is handed out, empty for no opinion; `state` is
    the validation state where one was kept."""

    status: Status
    reason: str = ""
    blocked: bool = False
    permission: str = ""
    handoff_id: str | None = None
    state: dict[str, Any] | None = None


def answer(name: Name | None, ruling: Ruling) -> dict[str, Any]:
    """`name` is None where there was no event to read."""
    reason = clean(ruling.reason, LONGEST)
    return {
        "status": ruling.status.value,
        "blocked": ruling.blocked,
        "exit_code": int(ruling.blocked),
        "reason": reason,
        "handoff_id": ruling.handoff_id,
        "validation_state": ruling.state,
        **_in_the_hosts_words(name, ruling, reason),
    }


def _in_the_hosts_words(name: Name | None, ruling: Ruling, reason: str) -> dict[str, Any]:
    """Nothing where there is nothing against it: what the host's own user allows and asks stays as it is. Not `defer`,
    which parks the call until somebody resumes it."""
    if name is Name.HANDING_OUT and ruling.permission:
        said = {"permissionDecision": ruling.permission, "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": name.value, **said}}
    if name in (Name.HANDED_BACK, Name.STOPPED) and ruling.blocked:
        return {"decision": BLOCK}
    return {}
