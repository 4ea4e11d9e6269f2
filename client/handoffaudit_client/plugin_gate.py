"""Gate that the plug-ins share."""

from __future__ import annotations

from handoffaudit_client.plugins import client_of, gated, wait_for_decision
from handoffaudit_client.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from handoffaudit_client.plugins import AnyClient

POLICIES = ("block", "interrupt", "observe")


class PluginGate:
    """Ask for verdicts by a policy.

    `block` waits for a person, `interrupt` does not, and `observe` sends handoffs without asking.
    """

    def __init__(
        self,
        client: AnyClient | None,
        policy: str,
        timeout: float,
        policies: Sequence[str] = POLICIES,
    ) -> None:
        """Raise `ValueError` for a policy that the framework lacks, or a wrong address or key."""
        if policy not in policies:
            named = ", ".join(f'"{one}"' for one in policies)
            raise ValueError(f"policy is {policy!r}: give one of {named}")
        self.client = client_of(client)
        self.policy = policy
        self.timeout = timeout

    def ask(self, question: Mapping[str, Any]) -> Verdict:
        """Submit the handoff and return the verdict; with `block`, wait in this thread for a person."""
        verdict = self._submit(question)
        return verdict.wait(self.timeout) if self.policy == "block" else verdict

    async def ask_async(self, question: Mapping[str, Any]) -> Verdict:
        """Do the same as `ask`, while other tasks go on."""
        import asyncio

        verdict = await asyncio.to_thread(self._submit, question)
        return await wait_for_decision(verdict, self.timeout) if self.policy == "block" else verdict

    def must_interrupt(self, verdict: Verdict, *, is_resumed: bool) -> bool:
        """Return whether a run has to end or pause to wait for a person; only `interrupt` ends or pauses runs.

        A resumed run pauses again if the server can't be reached, because nobody knows whether a person has approved
        the handoff that interrupted the run.
        """
        is_unknown = is_resumed and verdict.state == "unverified"
        return self.policy == "interrupt" and (verdict.is_open or is_unknown)

    def _submit(self, question: Mapping[str, Any]) -> Verdict:
        gated[question["handoff_id"]] = True
        if self.policy == "observe":
            return Verdict("unverified", "The handoff is only observed.", handoff_id=self.client.send(**question))
        return self.client.gate(**question)


def show(question: Mapping[str, Any], verdict: Verdict) -> dict[str, str]:
    """Return the facts that a program needs about a handoff that waits for a person."""
    names = {name: str(question[name]) for name in ("handoff_id", "source", "target")}
    return {**names, "state": verdict.state, "why": verdict.why, "url": verdict.url}
