"""A handoff's state in one sentence, as a person would say it."""

from collections.abc import Sequence
from dataclasses import dataclass

from handoffaudit.dashboard.handoff.places import Found
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.validation.text import pluralize


@dataclass(frozen=True, slots=True)
class Headline:
    """`icon` and `tone` as the states have them; `note` is what a person or the server said to it."""

    icon: str
    tone: str
    text: str
    note: str = ""


def headline(handoff: Handoff, found: Sequence[Found], events: Sequence[Event]) -> Headline:
    deciding = [issue for issue in found if issue.decides]
    last = events[-1].reason if events else ""
    match handoff.state:
        case State.RECEIVED | State.VALIDATING:
            return _waiting(handoff, deciding, last)
        case State.REJECTED:
            return Headline("rejected", "bad", _because("Rejected", deciding))
        case State.HELD:
            return Headline("held", "wait", _because("Held for a person", deciding))
        case State.ACCEPTED:
            return _accepted(handoff, found, deciding)
        case State.SUPERSEDED:
            return Headline("superseded", "quiet", "A later attempt took its place", last)
        case _:
            by = f" by {events[-1].actor}" if events else ""
            tone = "good" if handoff.state == State.APPROVED else "bad"
            return Headline(handoff.state, tone, f"{handoff.state.capitalize()}{by}", last)


def _waiting(handoff: Handoff, deciding: Sequence[Found], reason: str) -> Headline:
    if handoff.parked:
        return Headline("parked", "bad", "Parked: judging it failed again and again", reason)
    if handoff.verdict:
        so_far = _because("So far it would not pass", deciding) if deciding else "Nothing stops it so far"
        return Headline(handoff.state, "quiet", f"{so_far}; the model is being asked", "Its answer appears here.")
    return Headline(handoff.state, "quiet", "Not judged yet", "The verdict appears here as soon as it is there.")


def _because(what: str, deciding: Sequence[Found]) -> str:
    if not deciding:
        return what
    if len(deciding) > 1:
        return f"{what} for {len(deciding)} reasons"
    title = deciding[0].title
    return f"{what}: {title[:1].lower()}{title[1:]}" if title[1:2].islower() else f"{what}: {title}"


def _accepted(handoff: Handoff, found: Sequence[Found], deciding: Sequence[Found]) -> Headline:
    if handoff.flagged:
        note = "It passed while the model could not be asked. Checked later, it would have been rejected."
        return Headline("warning", "bad", _because("Accepted unverified, and should not have been", deciding), note)
    if handoff.would_decide:
        text = _because(f"Let pass in shadow mode; it would be {handoff.would_decide}", deciding)
        return Headline("accepted", "wait", text)
    warnings = sum(issue.severity == "warning" for issue in found)
    if handoff.unverified:
        others = pluralize(warnings - 1, "other warning") if warnings > 1 else ""
        text = "Accepted, not checked by the model" + (f", with {others}" if others else "")
        return Headline("accepted", "wait", text)
    if not warnings:
        return Headline("accepted", "good", "Accepted: nothing is wrong with it")
    return Headline("accepted", "good", f"Accepted with {pluralize(warnings, 'warning')}")
