"""The decision on one event, by the server and the user's phase rules, and the output for the agent host."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handoffaudit.cli.hook_server import Rejected, Server, Undelivered
from handoffaudit.cli.hook_spool import Entry, Held, SendReport, Spool, SpoolFull, send_waiting

if TYPE_CHECKING:
    from handoffaudit.cli.hook import Event
    from handoffaudit.validation.phase_rules import PhaseRule, RuleResult

# The agent waits while earlier events are sent, so after `CATCH_UP_SECONDS`, the remaining earlier events are left for
# later. The agent host limits the time for all events together. So if sending the earlier events takes longer than
# `CATCH_UP_SECONDS`, the excess shortens the time limit of the current event. The current event still has
# `LEAST_SECONDS`, unless its own limit is shorter.
CATCH_UP_SECONDS = 5.0
LEAST_SECONDS = 5.0

_NOT_APPLICABLE = "NOT_APPLICABLE"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on an event; `answer` is the server's answer, empty if there is none."""

    blocked: bool
    reason: str
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RulesVerdict:
    """The result of the phase rules.

    `errors` has the name and message of each failed rule of severity error. `sent` is the JSON for the server.
    """

    failed: bool
    errors: tuple[tuple[str, str], ...]
    sent: str


class Gate:
    """The gate for events: asks the server, and evaluates the user's phase rules.

    `rules` is empty if the user has no rules file or rules do not apply to the event. `warn` gets one line at a time.
    """

    def __init__(
        self,
        server: Server,
        spool: Spool,
        rules: "tuple[PhaseRule, ...]",
        *,
        root: Path,
        hybrid: bool,
        seconds: float,
        warn: Callable[[str], None],
    ) -> None:
        self._server = server
        self._spool = spool
        self._rules = rules
        self._root = root
        self._hybrid = hybrid
        self._seconds = seconds
        self._warn = warn

    def decide(self, event: "Event") -> Decision:
        """Decide whether the event is allowed; never raises.

        If the server gives no answer, the phase rules alone decide. Without phase rules, the event is then allowed.
        """
        entry = Entry(f"hook-{os.urandom(16).hex()}", event.text)
        held = self._keep(entry)
        judged = None
        # The server judges only delegations. For other tools, the rules are evaluated without asking the server first.
        if self._rules and (self._hybrid or not event.of_a_delegation):
            judged = self._judge("hybrid" if self._hybrid else "fallback")
            entry = Entry(entry.id, wrap(event, phase_results=judged.sent))
            held = self._replace(held, entry)
        answer = self._ask(entry, held)
        if self._rules and judged is None and (answer is None or answer.get("status") == _NOT_APPLICABLE):
            judged = self._judge("fallback")
            entry = Entry(f"{entry.id}-rules", wrap(event, phase_results=judged.sent))
            held = self._keep(entry)
            if answer is not None:
                answer = self._ask(entry, held) or answer
            elif held:
                held.release()
        return _combine_decisions(answer or {}, judged)

    def send_result(self, event: "Event") -> None:
        """Send what a tool returned, with the time; never raises. The result is kept if the server is away."""
        entry = Entry(f"result-{os.urandom(16).hex()}", wrap(event, sent_at=now_as_json()))
        answer = self._ask(entry, self._keep(entry))
        if answer is not None and "tool_result" not in answer:
            reason = answer.get("reason") or "it can't be read."
            self._warn(f"The server does not keep the result: {reason} The key needs the scopes ingest and observe.")

    def _keep(self, entry: Entry) -> Held | None:
        try:
            return self._spool.add(entry)
        except (OSError, SpoolFull) as error:
            lost = "The event can't be kept, and is lost if the server is away"
            self._warn(f"{lost}: {error}. Make room, or see docs/hooks.md.")
            return None

    def _replace(self, held: Held | None, entry: Entry) -> Held | None:
        if held:
            try:
                held.rewrite(entry)
            except OSError as error:
                self._warn(f"The results of the rules can't be kept, and are lost if the server is away: {error}.")
        return held

    def _ask(self, entry: Entry, held: Held | None) -> dict[str, Any] | None:
        """Return the server's answer, or None if there is none.

        Without an answer, the user is warned, and the entry is kept or set aside. An entry that is not in the spool is
        lost. If the server fails on an earlier event, the current event is still judged.
        """
        began = time.monotonic()
        try:
            before = self._catch_up(held)
            late = max(time.monotonic() - began - CATCH_UP_SECONDS, 0.0)
            seconds = max(self._seconds - late, min(self._seconds, LEAST_SECONDS))
            answer = self._server.post(entry.body, entry.id, seconds)
        except Undelivered as error:
            kept = f"it is kept in {self._spool.folder} and sent later" if held else "it is lost"
            self._warn(f"{error}. The event was not judged; {kept}.")
            if held:
                held.release()
        except Rejected as error:
            self._warn(f"The server does not take the event: {error}.")
            self._set_aside(held, str(error))
        else:
            if held:
                held.remove()
            if before.problem:
                self._warn(f"An earlier event was not sent: {before.problem}. It is kept and sent later.")
                self._spool.postpone(before.failed)
            return answer
        return None

    def _catch_up(self, held: Held | None) -> SendReport:
        try:
            report = send_waiting(
                self._spool, self._server, before=held.path if held else None, seconds=CATCH_UP_SECONDS
            )
        except OSError as error:
            self._warn(f"The records in {self._spool.folder} were not sent: {error}.")
            return SendReport()
        for path in report.aside:
            self._warn(f"An earlier event was set aside: {path} says why.")
        if report.is_away:
            raise Undelivered(report.problem, is_away=True)
        return report

    def _set_aside(self, held: Held | None, reason: str) -> None:
        if held:
            try:
                self._warn(f"It was set aside: {held.set_aside(reason)} says why.")
            except OSError as error:
                self._warn(f"It could not be set aside: {error}.")

    def _judge(self, mode: str) -> RulesVerdict:
        from handoffaudit.cli.hook_rules import evaluate
        from handoffaudit.validation.phase_rules import Overall, failed_errors, overall

        results = evaluate(self._rules, self._root)
        failed = failed_errors(self._rules, {one.rule_id: one.status for one in results})
        return RulesVerdict(
            failed=overall(self._rules, results) is Overall.FAILED,
            errors=_list_failed(failed, results),
            sent=json.dumps(
                {
                    "rules": [one.as_plain() for one in self._rules],
                    "results": [one.as_plain() for one in results],
                    "mode": mode,
                }
            ),
        )


def _list_failed(failed: "list[PhaseRule]", results: "tuple[RuleResult, ...]") -> tuple[tuple[str, str], ...]:
    messages = {one.rule_id: one.message for one in results}
    return tuple((rule.rule_name or rule.rule_id, messages[rule.rule_id]) for rule in failed)


def _combine_decisions(answer: dict[str, Any], judged: RulesVerdict | None) -> Decision:
    """Combine both decisions: the server and the evaluated rules can each block the event."""
    by_server = answer.get("blocked") is True or answer.get("exit_code") == 1
    by_rules = judged is not None and judged.failed
    server_reason = answer.get("reason")
    reasons = [server_reason] if by_server and isinstance(server_reason, str) and server_reason else []
    # If the server took the rules into account, its reason already contains their messages.
    known = "\n".join(reasons)
    if judged and by_rules:
        reasons += [f"{name}: {message}" for name, message in judged.errors if message not in known]
    return Decision(by_server or by_rules, "\n".join(reasons), answer)


def wrap(event: "Event", **parts: str) -> str:
    """Return the body for the server: the event, and further members whose values are JSON texts.

    The event is sent exactly as received; encoding it again could change it.
    """
    more = "".join(f', "{name}": {part}' for name, part in parts.items())
    return f'{{"event": {event.text}{more}}}'


def now_as_json() -> str:
    return json.dumps(datetime.now(UTC).isoformat(timespec="milliseconds"))


LONGEST_REASON = 10_000

# Fields that Claude Code reads in the output of a hook.
_OF_THE_HOST = ("systemMessage", "suppressOutput", "continue", "stopReason")

# A gate may only block. The server's `allow` is not passed on, because it would skip a question that the user wants to
# be asked. The server's `updatedInput` is not passed on either, because it would change the delegated task.
_PERMISSIONS = ("deny", "ask")

NO_REASON = "The handoff was blocked, and no reason was given."


def blocking_reason(decision: Decision) -> str:
    """Return why the event was blocked, as text that is safe to show on a terminal and to an LLM."""
    text = decision.reason or NO_REASON
    return "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)[:LONGEST_REASON]


def host_output(event: "Event", decision: Decision) -> dict[str, Any]:
    """Return the JSON that Claude Code reads; empty if there is nothing to say.

    The output has the members of the server's answer that Claude Code may get. If the decision blocks the event and
    these members do not, members that block with the decision's reason are added.
    """
    output = {name: decision.answer[name] for name in _OF_THE_HOST if name in decision.answer}
    output |= _read_permission(event, decision.answer.get("hookSpecificOutput"))
    if "decision" in decision.answer:
        output |= {"decision": decision.answer["decision"], "reason": decision.answer.get("reason", "")}
    if not decision.blocked or _is_blocking(output):
        return output
    if event.name == "PreToolUse":
        own = {"permissionDecision": "deny", "permissionDecisionReason": blocking_reason(decision)}
        return output | _read_permission(event, own)
    return output | {"decision": "block", "reason": blocking_reason(decision)}


def _read_permission(event: "Event", given: object) -> dict[str, Any]:
    """Return the decision `deny` or `ask` on a task, as the host reads it; empty for other events or decisions."""
    if event.name != "PreToolUse" or not isinstance(given, dict) or given.get("permissionDecision") not in _PERMISSIONS:
        return {}
    words = {name: given[name] for name in ("permissionDecision", "permissionDecisionReason") if name in given}
    return {"hookSpecificOutput": {"hookEventName": event.name, **words}}


def _is_blocking(output: dict[str, Any]) -> bool:
    own = output.get("hookSpecificOutput")
    return output.get("decision") == "block" or (isinstance(own, dict) and own.get("permissionDecision") == "deny")
