"""The chain layer: loops, length, repeats, unknown targets, and differences between declared and derived chain."""

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest
from typing import Any, Final

from handoffaudit.validation.agents import ALWAYS_KNOWN, closest_agents, listed_agents
from handoffaudit.validation.codes import make
from handoffaudit.validation.config import CircularPolicy
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers.base import History, Subject
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean, either, pluralize, show
from handoffaudit.validation.verdict import ChainFacts

_ALIKE = 0.8

_MOST_LOOKED_AT = 200


def instead_of(record: Record, field: str) -> str | None:
    """Return the name of the field that was probably meant as `field`, or None.

    Only fields next to the chain are compared, and only if `field` itself is absent or empty. A name that begins with
    the name of the field and continues, such as `user_approved_by`, is a field of its own.
    """
    beside = at(record.document, (BY_NAME[record.format].PLACES.chain or ())[:-1])
    if not isinstance(beside, dict) or beside.get(field) not in (None, ""):
        return None
    wanted = _plain(field)
    others = (name for name in beside if name != field and len(name) < 2 * len(field))
    # Only the first names in sort order are compared, so that the result does not depend on the key order.
    plain = {_plain(name): name for name in nsmallest(_MOST_LOOKED_AT, others)}
    names = [name for name in plain if name == wanted or not name.startswith(wanted)]
    return next((plain[near] for near in get_close_matches(wanted, names, n=1, cutoff=_ALIKE)), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


name: Final = "chain"

TOLERATED_REPEATS = 2

NO_CHAIN: Final = "the handoff has no chain"

_ABSENT = object()

_SHOWN_ENDS = 4

# What the sender can do to pass, for the policies under which no person decides.
_LOOP_HINTS: Final = {
    CircularPolicy.REJECT: "For this type no reason is accepted: name a target that is not in the chain.",
    CircularPolicy.ALLOW: "Give the reason in handoff_reason, which is enough for this type; or name another target.",
}


def skip(subject: Subject) -> str | None:
    if _has_chain(subject) or subject.known_agents is not None or subject.history.unknown:
        return None
    return NO_CHAIN


def _has_chain(subject: Subject) -> bool:
    return bool(subject.record.call_chain or subject.history.derived)


def check(subject: Subject) -> Iterable[Issue]:
    """Yield the issues about the chain, the target, and the handoffs that the handoff names.

    The limits apply to the longer of the declared and the derived chain. Only the declared chain is searched for loops;
    in the derived chain, a return counts only if there is no progress (`repeats`). If there is an agent registry, the
    target of a handoff without a chain is looked up, too.
    """
    if _has_chain(subject):
        yield from _chain_issues(subject)
    else:
        subject.findings.notes[name] = NO_CHAIN
    yield from _unknown_target(subject)
    yield from _unknown_handoffs(subject)


def _chain_issues(subject: Subject) -> Iterable[Issue]:
    record, policy = subject.record, subject.policy
    declared, derived = record.call_chain, subject.history.derived
    shown_chain = derived if derived is not None and len(derived) > len(declared) else declared
    source, target = record.source_agent_id, record.target_agent_id
    to_itself = source == target
    loop = () if to_itself else _loop_issues(subject)
    long = len(shown_chain) > policy.approval_length and not record.user_approved
    subject.findings.chain = ChainFacts(
        declared=declared,
        derived=derived,
        derived_complete=subject.history.derived_complete,
        shown=shown_chain,
        target=target,
        loop=_positions(shown_chain, target) if to_itself or loop else (),
        over_from=policy.approval_length if long else None,
        repeats=subject.history.repeats,
    )
    if to_itself:
        yield _self_handoff(subject)
    yield from loop
    yield from _length_issues(subject, shown_chain, long=long)
    yield from _difference(subject)
    yield from _source_first(subject)
    yield from _repeats(subject)


def _places(subject: Subject) -> tuple[Location, Location]:
    """Return the locations of the target and of the chain in the document."""
    places = BY_NAME[subject.record.format].PLACES
    return places.target, places.chain or ()


def _chain_name(subject: Subject) -> str:
    """Return the name of the field that declares the chain."""
    return str(_places(subject)[1][-1])


def _positions(chain: tuple[str, ...], agent: str) -> tuple[int, ...]:
    return tuple(position for position, name in enumerate(chain) if name == agent)


def format_chain(chain: tuple[str, ...], mark: str | None = None) -> str:
    """Return a chain as text, such as `planner → [writer] → critic`.

    The marked agent is in brackets, and the middle of a long chain is left out.
    """
    names = [f"[{name}]" if name == mark else name for name in chain]
    if len(names) > 2 * _SHOWN_ENDS + 1:
        left_out = len(names) - 2 * _SHOWN_ENDS
        names = [*names[:_SHOWN_ENDS], f"… {left_out} more …", *names[-_SHOWN_ENDS:]]
    return " → ".join(name if len(name) <= 40 else f"{name[:39]}…" for name in names)


def _self_handoff(subject: Subject) -> Issue:
    agent = subject.record.target_agent_id
    rule = f" The target must NOT appear in {_chain_name(subject)}." if agent in subject.record.call_chain else ""
    return make(
        "chain.self_handoff",
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
    metadata: dict[str, Any] = {"positions": positions, "target": target}
    location = _places(subject)[0]
    if reason and policy is CircularPolicy.HOLD:
        return (
            make(
                "chain.circular_with_reason",
                location=location,
                message=f"The target {show(target)} must NOT appear in {_chain_name(subject)} unless a person "
                f"approves: {loop}. The reason given: {show(reason)}",
                actual=target,
                reason=reason,
                **metadata,
            ),
        )
    return (
        make(
            "chain.circular",
            location=location,
            message=f"The target {show(target)} must NOT appear in {_chain_name(subject)}: {loop}."
            + ("" if reason else " No reason is given."),
            actual=target,
            hint=_reason_hint(subject),
            **metadata,
        ),
    )


def _reason_hint(subject: Subject) -> str | None:
    policy = subject.policy.circular_policy
    near = None if policy is CircularPolicy.REJECT else instead_of(subject.record, "handoff_reason")
    if near:
        return f'Did you mean "handoff_reason" by "{clean(near)}"? A reason is read from there alone.'
    return _LOOP_HINTS.get(policy)


def _length_issues(subject: Subject, chain: tuple[str, ...], *, long: bool) -> Iterable[Issue]:
    policy, location = subject.policy, _places(subject)[1]
    length = len(chain)
    whose = "" if chain is subject.record.call_chain else " by the server's count"
    said = f"The chain is {pluralize(length, 'agent')} long{whose}"
    if long:
        yield make(
            "chain.needs_approval",
            location=location,
            message=f"{said}, over the {policy.approval_length} that pass without approval: {format_chain(chain)}.",
            hint=_approval_hint(subject),
            expected=policy.approval_length,
            actual=length,
        )
    if length > policy.recommended_length:
        yield make(
            "chain.over_recommended",
            location=location,
            message=f"{said}, over the recommended {policy.recommended_length}.",
            expected=policy.recommended_length,
            actual=length,
        )


def _approval_hint(subject: Subject) -> str | None:
    near = instead_of(subject.record, "user_approved")
    return (
        f'Did you mean "user_approved" by "{clean(near)}"? If not, a reviewer approves or declines it.'
        if near
        else None
    )


def _difference(subject: Subject) -> Iterable[Issue]:
    location, history, declared = _places(subject)[1], subject.history, subject.record.call_chain
    stated = declared and at(subject.record.document, location, _ABSENT) is not _ABSENT
    if history.derived is None or not stated or _agrees(declared, history):
        return
    known = format_chain(history.derived)
    end = "" if history.derived_complete else "… → "
    yield make(
        "chain.declared_differs",
        location=location,
        message=f"The declared chain is {format_chain(declared)}; the one known from earlier handoffs is {end}{known}.",
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
    if not BY_NAME[record.format].SOURCE_LEADS_CHAIN or not record.call_chain:
        return
    first, source = record.call_chain[0], record.source_agent_id
    if first != source:
        yield make(
            "chain.source_not_first",
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
        "chain.unknown_target",
        location=_places(subject)[0],
        message=f"The target {show(target)} is not in the registry of known agents.",
        hint=_known_agents_hint(near, listed, len(known)),
        expected=near or None,
        actual=target,
        closest=near,
        known=len(known),
        known_agents=listed,
    )


def _known_agents_hint(near: tuple[str, ...], listed: tuple[str, ...], known: int) -> str | None:
    """Return a hint that names the agents to choose from, or None if the registry is empty."""
    if not listed:
        return None
    meant = f"Did you mean {either(map(show, near))}? " if near else ""
    more = f" (+{known - len(listed):,} more)" if known > len(listed) else ""
    agents = f"Known agents: {', '.join(map(show, listed))}{more}."
    return f"{meant}{agents} If none of them is meant, add the target's skill to the registry."


def _unknown_handoffs(subject: Subject) -> Iterable[Issue]:
    record, unknown = subject.record, subject.history.unknown
    named = (
        ("chain.unknown_retry", "retry_of", record.retry_of),
        ("chain.unknown_parent", "parent_handoff_id", record.parent_handoff_id),
    )
    for code, field, handoff_id in named:
        if handoff_id and handoff_id in unknown:
            yield make(
                code,
                message=f"{field} names {show(handoff_id)}, and no handoff of that id is known here.",
                actual=handoff_id,
                part="envelope",
            )


def _repeats(subject: Subject) -> Iterable[Issue]:
    record, repeats = subject.record, subject.history.repeats
    if repeats < TOLERATED_REPEATS:
        return
    times = repeats + 1
    yield make(
        "chain.repeats_without_progress",
        location=_places(subject)[0],
        message=f"{show(record.source_agent_id)} hands the same data to {show(record.target_agent_id)} "
        f"for the {_ordinal(times)} time in this trace.",
        actual=times,
        repeats=repeats,
    )


def _ordinal(number: int) -> str:
    words = {3: "third", 4: "fourth", 5: "fifth"}
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return words.get(number, f"{number}{suffix}")
