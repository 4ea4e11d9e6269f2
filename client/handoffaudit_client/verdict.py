"""Verdict on one handoff."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

# The next agent may start.
PASSES = frozenset({"accepted", "approved", "unverified"})

# There is no final decision yet.
OPEN = frozenset({"received", "validating", "held"})

_MOST_FINDINGS = 10

_LONGEST_WHY = 4_000


class Finding:
    """A defect of a handoff: rule code, severity, path in the document, message and hint."""

    __slots__ = ("code", "hint", "message", "path", "severity")

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.code = str(found.get("code") or "")
        self.severity = str(found.get("severity") or "error")
        self.path = str(found.get("field_path") or "")
        self.message = str(found.get("message") or "")
        self.hint = str(found.get("hint") or "")

    def __repr__(self) -> str:
        return f"Finding({self.code!r}, {self.severity!r}, {self.path!r}, {self.message!r})"

    @property
    def is_error(self) -> bool:
        """Return whether the finding alone rejects a handoff."""
        return self.severity in ("error", "critical")


class Verdict:
    """The verdict on a handoff. It is true if the next agent may start.

    `state` is a state of the server: `accepted`, `approved`, `held`, `rejected`, `declined`, `superseded`, `received`
    or `validating`. If the server did not answer, or the client sent nothing, `state` is `unverified`, or `unreachable`
    with `on_unreachable="stop"`. `refused` means that the server does not take the handoff, or does not let the key use
    its approval. A person's approval works once: if the approval has ended, `state` is `used`, `expired` or `outdated`
    (a policy was saved after the approval). `why` is a text for an LLM, and never empty. `url` is the page of the
    handoff, for people; empty if unknown.
    """

    __slots__ = ("_ask", "findings", "handoff_id", "state", "url", "why")

    def __init__(
        self,
        state: str,
        why: str,
        *,
        handoff_id: str,
        findings: Sequence[Finding] = (),
        url: str = "",
        ask: Callable[[float], Verdict] | None = None,
    ) -> None:
        self.state = state
        self.why = why
        self.findings = tuple(findings)
        self.handoff_id = handoff_id
        self.url = url
        self._ask = ask

    def __bool__(self) -> bool:
        return self.state in PASSES

    def __repr__(self) -> str:
        return f"Verdict({self.state!r}, {self.why!r}, handoff_id={self.handoff_id!r})"

    @property
    def is_open(self) -> bool:
        """Return whether the server, or a person if the state is `held`, has yet to decide."""
        return self.state in OPEN

    def wait(self, timeout: float = 300.0) -> Verdict:
        """Wait at most `timeout` seconds for the decision, and return the verdict.

        A slow server has at least 3 seconds to answer, even if `timeout` is shorter. A final verdict is returned at
        once. Never raises because of the server: without a decision in time, the returned verdict is still open.
        """
        return self._ask(timeout) if self.is_open and self._ask else self


def read_verdict(
    answer: Mapping[str, Any], handoff_id: str, target: str, ask: Callable[[float], Verdict] | None = None
) -> Verdict:
    """Return the verdict from an answer of the server: a handoff, a receipt, or a problem that names findings."""
    state = str(answer.get("state") or "refused")
    verdict = answer.get("verdict")
    issues = (verdict.get("issues") if isinstance(verdict, dict) else None) or answer.get("issues")
    findings = [Finding(one) for one in issues if isinstance(one, dict)] if isinstance(issues, list) else []
    links = answer.get("links")
    url = str(links.get("page") or "") if isinstance(links, dict) else ""
    why = _explain(state, findings, target, answer)
    return Verdict(state, why, handoff_id=handoff_id, findings=findings, url=url, ask=ask)


def read_refused_use(problem: Mapping[str, Any], handoff_id: str, url: str, ask: Callable[[float], Verdict]) -> Verdict:
    """Return the verdict on a handoff whose approval can't be used: it ended, was undone, or is not for this key."""
    state = str(problem.get("approval") or problem.get("state") or "refused")
    why = str(problem.get("detail") or "") or f"The approval can't be used: it is {state}. Hand over again."
    return Verdict("used" if state in PASSES else state, why, handoff_id=handoff_id, url=url, ask=ask)


def _explain(state: str, findings: Sequence[Finding], target: str, answer: Mapping[str, Any]) -> str:
    next_agent = target or "the next agent"
    problem = " ".join(str(answer[name]) for name in ("title", "detail") if answer.get(name))
    heads = {
        "accepted": "The handoff is accepted.",
        "approved": "A person approved the handoff.",
        "held": f"The handoff is held: a person has to decide before {next_agent} may start. Do not hand over again;"
        " wait for the decision.",
        "rejected": "The handoff is rejected. Correct it, and hand over again.",
        "declined": f"A person declined the handoff: {next_agent} must not start. Do not hand over the same"
        " again: correct it first.",
        "superseded": _explain_successor(answer),
        "refused": f"The handoff is refused. {problem}".rstrip(),
    }
    head = heads.get(state, f"There is no verdict yet: {next_agent} must wait for it.")
    # Notes and warnings stop nothing, so they would only distract an agent from what it has to correct.
    told = [one for one in findings if one.is_error] or list(findings)
    lines = [_line(one) for one in told[:_MOST_FINDINGS]]
    if len(told) > _MOST_FINDINGS:
        lines.append(f"- and {len(told) - _MOST_FINDINGS} more")
    if not lines and state == "rejected" and problem:
        lines = [f"- {problem}"]
    return "\n".join([head, *lines])[:_LONGEST_WHY]


def _line(finding: Finding) -> str:
    place = f"{finding.path}: " if finding.path and finding.path not in finding.message else ""
    return f"- {place}{finding.message} {finding.hint}".rstrip()


def _explain_successor(answer: Mapping[str, Any]) -> str:
    successor = answer.get("superseded_by")
    if not isinstance(successor, dict):
        return "A later attempt replaced the handoff."
    return f"A later attempt replaced the handoff: {successor.get('handoff_id')}, {successor.get('state')}."
