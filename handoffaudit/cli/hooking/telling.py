"""A decision in the words of the agent host."""

from typing import Any

from handoffaudit.cli.hooking.event import Event
from handoffaudit.cli.hooking.gate import Decision

LONGEST_TEXT = 10_000
# what Claude Code reads of a hook's output
_OF_THE_HOST = ("systemMessage", "suppressOutput", "continue", "stopReason")
# `allow` would skip what the user wants to be asked, and another input would change what is handed out: a gate may only
# stand in the way
_PERMISSIONS = ("deny", "ask")
NO_REASON = "The handoff was stopped, without a reason."


def reason(decision: Decision) -> str:
    """Why it was blocked, in text that a terminal and a model can be shown."""
    text = decision.reason or NO_REASON
    return "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)[:LONGEST_TEXT]


def output(event: Event, decision: Decision) -> dict[str, Any]:
    """The JSON that Claude Code reads of a hook: the server's words, or where the user's rules block and the server
    does not, our own. Empty where there is nothing to say."""
    said = {name: decision.answer[name] for name in _OF_THE_HOST if name in decision.answer}
    said |= _permission(event, decision.answer.get("hookSpecificOutput"))
    if "decision" in decision.answer:
        said |= {"decision": decision.answer["decision"], "reason": decision.answer.get("reason", "")}
    if not decision.blocked or _blocks(said):
        return said
    if event.name == "PreToolUse":
        own = {"permissionDecision": "deny", "permissionDecisionReason": reason(decision)}
        return said | _permission(event, own)
    return said | {"decision": "block", "reason": reason(decision)}


def _permission(event: Event, given: object) -> dict[str, Any]:
    """What a server says of a task before it is handed out; empty where it has no opinion, or none that it may have."""
    if event.name != "PreToolUse" or not isinstance(given, dict) or given.get("permissionDecision") not in _PERMISSIONS:
        return {}
    words = {name: given[name] for name in ("permissionDecision", "permissionDecisionReason") if name in given}
    return {"hookSpecificOutput": {"hookEventName": event.name, **words}}


def _blocks(said: dict[str, Any]) -> bool:
    own = said.get("hookSpecificOutput")
    return said.get("decision") == "block" or (isinstance(own, dict) and own.get("permissionDecision") == "deny")
