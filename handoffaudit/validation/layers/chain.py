"""The chain layer: loops, length, repeats, unknown targets, and differences between declared and derived chain."""

from collections.abc import Iterable
from typing import Any, Final

from handoffaudit.validation.agents import ALWAYS_KNOWN, closest_agents, known_agents_hint, listed_agents
from handoffaudit.validation.config import CircularPolicy
from handoffaudit.validation.formats import BY_NAME, derives_chain
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.layers.base import History, Subject
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean, format_chain, misspelt_field, ordinal, pluralize, show
from handoffaudit.validation.verdict import ChainFacts

name: Final = "chain"

SELF_HANDOFF: Final = Code(
    "chain.self_handoff",
    Severity.ERROR,
    "Self-handoff",
    what="Source and target are the same agent. No person can approve such a handoff.",
    why="An agent that hands over to itself makes no progress, and nothing stops it.",
    hint="Name another target, or keep the work without a handoff.",
    approvable=False,
)
CIRCULAR: Final = Code(
    "chain.circular",
    Severity.ERROR,
    "Circular chain",
    what="The target has had this work before. The handoff gives no reason for the return, or its type accepts no "
    "reason.",
    why="Work that returns to an earlier agent tends to circulate, and each round costs money.",
    hint="Give the reason in handoff_reason, so that a person can decide, or name another target.",
)
CIRCULAR_WITH_REASON: Final = Code(
    "chain.circular_with_reason",
    Severity.WARNING,
    "Circular chain with a reason",
    what="The target has had this work before, and the handoff gives a reason. A person decides.",
    why="Returning the work may be right. Only a person can judge the reason, because the agents "
    "would always give one.",
    hint="A reviewer approves or declines the handoff. To avoid the wait, name a target that is not in the chain.",
    holds=True,
)
NEEDS_APPROVAL: Final = Code(
    "chain.needs_approval",
    Severity.WARNING,
    "Long chain needs approval",
    what="The chain is longer than the type of the handoff allows without approval. A person decides.",
    why="Each agent adds its own mistakes. In a long chain, a person should check the work before others build on it.",
    hint="Wait: a reviewer approves or declines the handoff. Or hand over through fewer agents.",
    holds=True,
)
OVER_RECOMMENDED: Final = Code(
    "chain.over_recommended",
    Severity.WARNING,
    "Chain over the recommended length",
    what="The chain is longer than recommended for the type of the handoff.",
    why="Long chains cost time and tokens, and later agents lose sight of the original task.",
    hint="Finish this piece of work and start a new one, or hand over through fewer agents.",
)
DECLARED_DIFFERS: Final = Code(
    "chain.declared_differs",
    Severity.WARNING,
    "Declared chain mismatch",
    what="The chain that the sender declares differs from the chain of the earlier handoffs in the trace.",
    why="One of the two chains is wrong: an agent left itself out, or copied the chain of other work.",
    hint="Copy the chain of the previous handoff and add the source agent at its end.",
)
REPEATS_WITHOUT_PROGRESS: Final = Code(
    "chain.repeats_without_progress",
    Severity.ERROR,
    "Repeats without progress",
    what="The source hands the same data to the same target for at least the third time in one trace. If all agents of "
    "a loop repeat their data, only the agent that begins each round gets this finding. If the sender declares no "
    "chain, too many returns on one route also cause this finding.",
    why="Two agents that keep exchanging the same work make no progress and will not stop.",
    hint="Change the data, add new results, or let a person decide how to continue.",
)
SOURCE_NOT_FIRST: Final = Code(
    "chain.source_not_first",
    Severity.WARNING,
    "Source is not first in the chain",
    what="The source skill is not the first entry of handoff_chain.",
    why="Readers take the first entry for the source agent. Any other order blames the wrong agent.",
    hint="Put source.skill first in handoff_chain.",
)
UNKNOWN_TARGET: Final = Code(
    "chain.unknown_target",
    Severity.WARNING,
    "Unknown target",
    what="The target is not in the registry of known agents, so possibly no agent will take the work.",
    why="If the name is misspelt, no such agent exists and the work stays undone.",
    hint="Name a known agent, or add the target's skill to the registry.",
)
UNKNOWN_RETRY: Final = Code(
    "chain.unknown_retry",
    Severity.WARNING,
    "Unknown retried handoff",
    what="retry_of does not name a known handoff. This handoff counts as a first attempt and does "
    "not replace another one.",
    why="The attempt that should be replaced may still wait for a person, and the retries are counted from the start.",
    hint="Send the handoff_id that the server returned for the previous attempt.",
)
UNKNOWN_PARENT: Final = Code(
    "chain.unknown_parent",
    Severity.INFO,
    "Unknown parent handoff",
    what="parent_handoff_id does not name a handoff that has arrived, so the chain cannot be verified through it.",
    why="The server then has to trust the declared chain, and cannot see a loop or an extra agent.",
    hint="Give the handoff_id of the handoff that this work came from, and send that handoff first.",
)
CODES: Final = (
    SELF_HANDOFF,
    CIRCULAR,
    CIRCULAR_WITH_REASON,
    NEEDS_APPROVAL,
    OVER_RECOMMENDED,
    DECLARED_DIFFERS,
    REPEATS_WITHOUT_PROGRESS,
    SOURCE_NOT_FIRST,
    UNKNOWN_TARGET,
    UNKNOWN_RETRY,
    UNKNOWN_PARENT,
)

TOLERATED_REPEATS = 2

NO_CHAIN: Final = "the handoff has no chain"

_RETURN_HINT: Final = "Finish with the present result, or let an administrator raise max_returns of the type."

# Hints for the policies under which no person decides.
_LOOP_HINTS: Final = {
    CircularPolicy.REJECT: "This type accepts no reason: name a target that is not in the chain.",
    CircularPolicy.ALLOW: "Give the reason in handoff_reason, which this type accepts without review, or name "
    "another target.",
}


def skip(subject: Subject) -> str | None:
    if any(_chains(subject)) or subject.known_agents is not None or subject.history.unknown:
        return None
    return NO_CHAIN


def _chains(subject: Subject) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the declared and the derived chain.

    If the field of the chain is missing, the declared chain is empty, and the derived chain has at least the source.
    """
    record, derived = subject.record, subject.history.derived
    if not derives_chain(record):
        return record.call_chain, derived
    return (), derived or ((record.source_agent_id,) if record.source_agent_id else None)


def check(subject: Subject) -> Iterable[Issue]:
    """Yield the issues about the chain, the target, and the handoffs that the handoff names.

    The limits apply to the longer of the declared and the derived chain. Only the declared chain is searched for loops.
    A return in the derived chain causes a finding only if the data repeats. Without a declared chain, too many returns
    cause a finding as well (`docs/decisions/0056-derived-chains.md`). If there is an agent registry, the target is
    looked up even if the handoff has no chain.
    """
    if any(_chains(subject)):
        yield from _chain_issues(subject)
    else:
        subject.findings.notes[name] = NO_CHAIN
    yield from _unknown_target(subject)
    yield from _unknown_handoffs(subject)


def _chain_issues(subject: Subject) -> Iterable[Issue]:
    record, policy = subject.record, subject.policy
    declared, derived = _chains(subject)
    shown_chain = derived if derived is not None and len(derived) > len(declared) else declared
    source, target = record.source_agent_id, record.target_agent_id
    to_itself = source == target
    loop = _loop_issues(subject) if declared and not to_itself else ()
    stuck = tuple(_repeats(subject, declares_chain=bool(declared)))
    # Without a declared chain, each agent counts once, because the work may return to an agent.
    counted = [at for at, agent in enumerate(shown_chain) if declared or agent not in shown_chain[:at]]
    long = len(counted) > policy.approval_length and not record.user_approved
    subject.findings.chain = ChainFacts(
        declared=declared,
        derived=derived,
        derived_complete=subject.history.derived_complete,
        shown=shown_chain,
        target=target,
        loop=_positions(shown_chain, target) if to_itself or loop or (stuck and not declared) else (),
        over_from=counted[policy.approval_length] if long else None,
        repeats=subject.history.repeats,
    )
    if to_itself:
        yield _self_handoff(subject)
    yield from loop
    yield from _length_issues(subject, shown_chain, len(counted), long=long)
    yield from _difference(subject)
    yield from _source_first(subject)
    yield from stuck


def _places(subject: Subject) -> tuple[Location, Location]:
    """Return the locations of the target and of the chain in the document."""
    places = BY_NAME[subject.record.format].places
    return places.target, places.chain or ()


def _positions(chain: tuple[str, ...], agent: str) -> tuple[int, ...]:
    return tuple(position for position, name in enumerate(chain) if name == agent)


def _self_handoff(subject: Subject) -> Issue:
    agent = subject.record.target_agent_id
    rule = f" The target must NOT appear in {_places(subject)[1][-1]}." if agent in _chains(subject)[0] else ""
    return make(
        SELF_HANDOFF,
        location=_places(subject)[0],
        message=f"{show(agent)} hands over to itself.{rule}",
        actual=agent,
    )


def _loop_issues(subject: Subject) -> tuple[Issue, ...]:
    record, policy = subject.record, subject.policy.circular_policy
    target = record.target_agent_id
    positions = _positions(record.call_chain, target)
    reason = record.handoff_reason.strip()
    if not positions or (reason and policy is CircularPolicy.ALLOW):
        return ()
    loop = f"{format_chain(record.call_chain, target)} → [{target}]"
    location, chain = _places(subject)
    message = f"The target {show(target)} must NOT appear in {chain[-1]}"
    details: dict[str, Any]
    if reason and policy is CircularPolicy.HOLD:
        code, details = CIRCULAR_WITH_REASON, {"reason": reason}
        message += f" unless a person approves: {loop}. The reason given: {show(reason)}"
    else:
        code, details = CIRCULAR, {"hint": _reason_hint(subject)}
        message += f": {loop}.{'' if reason else ' No reason is given.'}"
    details |= {"positions": positions, "target": target}
    return (make(code, location=location, message=message, actual=target, **details),)


def _reason_hint(subject: Subject) -> str | None:
    policy = subject.policy.circular_policy
    near = None if policy is CircularPolicy.REJECT else instead_of(subject.record, "handoff_reason")
    if near:
        return f'Did you mean "handoff_reason" by "{clean(near)}"? The reason is read only from that field.'
    return _LOOP_HINTS.get(policy)


def instead_of(record: Record, field: str) -> str | None:
    """Return the probable misspelling of `field` among the names of the fields next to the chain, or None."""
    holder = at(record.document, (BY_NAME[record.format].places.chain or ())[:-1])
    if not isinstance(holder, dict) or holder.get(field) not in (None, ""):
        return None
    return misspelt_field(field, holder)


def _length_issues(subject: Subject, chain: tuple[str, ...], length: int, *, long: bool) -> Iterable[Issue]:
    policy = subject.policy
    target, location = _places(subject)
    source = "" if chain is subject.record.call_chain else " by the server's count"
    agents, unit = len(set(chain)), "agents"
    if derives_chain(subject.record):
        location, summary = target, f"The chain of the trace has {pluralize(length, 'agent')}"
    elif agents < length:
        # A declared chain counts an agent as often as the chain names it.
        summary, unit = f"The chain has {length} entries from {pluralize(agents, 'agent')}{source}", "entries"
    else:
        summary = f"The chain is {pluralize(length, 'agent')} long{source}"
    if long:
        yield make(
            NEEDS_APPROVAL,
            location=location,
            message=f"{summary}, over the {policy.approval_length} {unit} allowed without approval: "
            f"{format_chain(chain)}.",
            hint=_approval_hint(subject),
            expected=policy.approval_length,
            actual=length,
        )
    if length > policy.recommended_length:
        yield make(
            OVER_RECOMMENDED,
            location=location,
            message=f"{summary}, over the recommended {policy.recommended_length}.",
            expected=policy.recommended_length,
            actual=length,
        )


def _approval_hint(subject: Subject) -> str | None:
    near = instead_of(subject.record, "user_approved")
    if not near:
        return None
    return f'Did you mean "user_approved" by "{clean(near)}"? If not, a reviewer approves or declines the handoff.'


def _difference(subject: Subject) -> Iterable[Issue]:
    location, history, declared = _places(subject)[1], subject.history, _chains(subject)[0]
    if history.derived is None or not declared or _agrees(declared, history):
        return
    known = f"{'' if history.derived_complete else '… → '}{format_chain(history.derived)}"
    # If the declared chain is the end of the derived chain, the sender knows only the last agents. Then the finding is
    # only a note, because the limits apply to the longer chain anyway.
    yield make(
        DECLARED_DIFFERS,
        severity=Severity.INFO if history.derived[-len(declared) :] == declared else None,
        location=location,
        message=f"The declared chain is {format_chain(declared)}; the chain known from earlier handoffs is {known}.",
        expected=history.derived,
        actual=declared,
        declared=declared,
        derived=history.derived,
        derived_complete=history.derived_complete,
    )


def _agrees(declared: tuple[str, ...], history: History) -> bool:
    known = [chain for chain in (history.derived, history.derived_full) if chain is not None]
    if history.derived_complete:
        return declared in known
    return any(declared[len(declared) - len(chain) :] == chain for chain in known if len(chain) <= len(declared))


def _source_first(subject: Subject) -> Iterable[Issue]:
    record = subject.record
    if not BY_NAME[record.format].source_leads_chain or not _chains(subject)[0]:
        return
    first, source = record.call_chain[0], record.source_agent_id
    if first != source:
        yield make(
            SOURCE_NOT_FIRST,
            location=(*_places(subject)[1], 0),
            message=f"handoff_chain begins with {show(first)}, not with source.skill, {show(source)}.",
            hint=f"Put {show(source)} first in handoff_chain.",
            expected=source,
            actual=first,
        )


def _unknown_target(subject: Subject) -> Iterable[Issue]:
    target, known = subject.record.target_agent_id, subject.known_agents
    if known is None or not target or target in known or target in ALWAYS_KNOWN:
        return
    near, listed = closest_agents(target, known), listed_agents(target, known)
    yield make(
        UNKNOWN_TARGET,
        location=_places(subject)[0],
        message=f"The target {show(target)} is not in the registry of known agents.",
        hint=known_agents_hint(near, listed, len(known)),
        expected=near or None,
        actual=target,
        closest=near,
        known=len(known),
        known_agents=listed,
    )


def _unknown_handoffs(subject: Subject) -> Iterable[Issue]:
    record, unknown = subject.record, subject.history.unknown
    named = (
        (UNKNOWN_RETRY, "retry_of", record.retry_of),
        (UNKNOWN_PARENT, "parent_handoff_id", record.parent_handoff_id),
    )
    for code, field, handoff_id in named:
        if handoff_id and handoff_id in unknown:
            yield make(
                code,
                message=f"{field} names {show(handoff_id)}, but no handoff with this id is known.",
                actual=handoff_id,
                part="envelope",
            )


def _repeats(subject: Subject, *, declares_chain: bool) -> Iterable[Issue]:
    history, most = subject.history, subject.policy.max_returns
    source, target = show(subject.record.source_agent_id), show(subject.record.target_agent_id)
    # In a round of a loop, every agent repeats its data. Only the agent that begins the round has the finding.
    if TOLERATED_REPEATS <= history.repeats > history.repeats_received:
        times = history.repeats + 1
        message = f"{source} hands the same data to {target} for the {ordinal(times)} time in this trace."
        details: dict[str, Any] = {"actual": times, "repeats": history.repeats}
    elif history.returns > most and not declares_chain:
        message = f"{source} returns the work to {target} for the {ordinal(history.returns)} time in this trace"
        message += f", over the limit of {pluralize(most, 'return')} on one route."
        details = {"actual": history.returns, "expected": most, "returns": history.returns, "hint": _RETURN_HINT}
    else:
        return
    yield make(REPEATS_WITHOUT_PROGRESS, location=_places(subject)[0], message=message, **details)
