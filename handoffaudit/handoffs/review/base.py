"""The parts that all review actions share: errors with messages for the person, reviewers, and changes of a handoff."""

from collections.abc import Callable

from django.db import transaction
from django.db.models import F, Q, QuerySet

from handoffaudit.accounts.models import Person, Role, Tenant
from handoffaudit.handoffs import db, long_poll, queries, transitions
from handoffaudit.handoffs.models import ActorKind, Event, Handoff, PassedOn, Proposal, State
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.text import trim

MAX_NOTE = 5000

MOST_REVIEWERS = 500

DECIDING = Role.list_including(Role.REVIEWER)

# The condition for memberships of people who may decide. A disabled person cannot sign in.
MAY_DECIDE = Q(role__in=DECIDING, person__is_active=True)

_APPROVING = "Write in the note why you approve a rejected handoff."

WHY_AGAIN = "Write in the note why the handoff must be decided again."

WHAT_TO_KNOW = "Write in the note what the next person must know."


class ReviewError(Exception):
    """The error for a refused review action; `message` gives the reason and the next step."""

    @property
    def message(self) -> str:
        return str(self)


class Stale(ReviewError):
    """The error for a handoff that changed since the reviewer saw it; `last_event` describes the change."""

    def __init__(self, handoff: Handoff, last_event: Event | None) -> None:
        what = f"The handoff is {handoff.state} now."
        if last_event and last_event.from_state == last_event.to_state:
            what = f"{last_event.actor}: “{last_event.reason}”"
        elif last_event:
            what = f"{last_event.actor} changed the state to {last_event.to_state}."
            said = "The reason" if last_event.actor_kind == ActorKind.SYSTEM else "The note"
            what += f" {said}: “{last_event.reason}”" if last_event.reason else ""
        super().__init__(f"This handoff changed since you opened it; nothing was overwritten. {what}")
        self.handoff = handoff
        self.last_event = last_event


class NotReviewable(ReviewError):
    def __init__(self, handoff: Handoff) -> None:
        super().__init__(f"This handoff is {handoff.state}; only held and rejected handoffs can be decided.")
        self.state = handoff.state


class NotReopenable(ReviewError):
    def __init__(self, handoff: Handoff) -> None:
        waits = "It already waits for a decision." if handoff.state in (State.HELD, State.REJECTED) else ""
        super().__init__(
            f"This handoff is {handoff.state}; only approved and declined handoffs can be reopened. {waits}".strip()
        )
        self.state = handoff.state


class DocumentRemoved(ReviewError):
    def __init__(self) -> None:
        super().__init__("Retention has removed the documents of this handoff, so it cannot be decided again.")


class NotApprovable(ReviewError):
    def __init__(self) -> None:
        super().__init__("A self-handoff cannot be approved. Decline the handoff; the sender must name another target.")


class Unreadable(ReviewError):
    def __init__(self) -> None:
        super().__init__(
            "An unreadable handoff cannot be approved. Decline the handoff, ask for a resend, or mark the handoff as "
            "handled."
        )


class Readable(ReviewError):
    def __init__(self) -> None:
        super().__init__("This handoff is readable. Approve or decline it.")


class WrongInput(ReviewError):
    """The error for an invalid value of `field`. `wrong` describes the error, `remedy` says what to enter."""

    def __init__(self, field: str, wrong: str, remedy: str, message: str = "") -> None:
        super().__init__(message or f"{wrong} {remedy}")
        self.field = field
        self.wrong = wrong
        self.remedy = remedy


class NoteRequired(WrongInput):
    def __init__(self, remedy: str = _APPROVING) -> None:
        super().__init__("note", "There is no note.", remedy, message=remedy)


class NoteTooLong(WrongInput):
    def __init__(self, length: int) -> None:
        super().__init__("note", f"The note has {length:,} characters.", f"Use at most {MAX_NOTE:,}.")


class NoReviewer(WrongInput):
    """The error for an assignment to a person who cannot decide in this tenant."""

    def __init__(self, name: str) -> None:
        remedy = "Choose a reviewer or an administrator, or nobody."
        super().__init__("to", f"{name[:150]} is not a reviewer of this tenant.", remedy)


class NotPassedOn(ReviewError):
    def __init__(self) -> None:
        super().__init__("This handoff is not assigned; nothing was changed.")


class NoComment(WrongInput):
    def __init__(self) -> None:
        super().__init__("text", "There is no text.", "Write a comment.")


class CommentTooLong(WrongInput):
    def __init__(self, length: int) -> None:
        super().__init__("text", f"The comment has {length:,} characters.", f"Use at most {MAX_NOTE:,}.")


class TooManyComments(ReviewError):
    def __init__(self, most: int) -> None:
        super().__init__(f"This handoff has {most:,} comments, the most that it can have. Nothing was added.")


class NotYourComment(ReviewError):
    """The error for a change of a comment that another actor wrote, or that is removed or does not exist."""

    def __init__(self) -> None:
        super().__init__("Only the author can change a comment, and a removed comment cannot be changed.")


class UnderLegalHold(ReviewError):
    """The error for a change that would lose a text of a handoff under legal hold."""

    def __init__(self) -> None:
        super().__init__("A legal hold keeps this handoff, so its comments can be neither edited nor removed.")


class NothingToUndo(ReviewError):
    """The error for an undo of a change that another actor made, that is too old, or that cannot be undone."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was undone: {why}")


class TooMany(ReviewError):
    def __init__(self, most: int) -> None:
        super().__init__(
            f"More than {most:,} handoffs match, too many to decide at once. Add a filter, such as a type or a rule "
            "code."
        )


def check_note(note: str) -> str:
    """Return the note in its stored form: trimmed, without NUL, and with LF in place of CR LF. Raise `NoteTooLong`."""
    note = trim(note.replace("\x00", ""))
    if len(note) > MAX_NOTE:
        raise NoteTooLong(len(note))
    return note


def list_reviewers(tenant: Tenant) -> list[Person]:
    """Return the people to whom a handoff can be assigned, sorted by name."""
    return list(_reviewers(tenant).order_by("username")[:MOST_REVIEWERS])


def find_reviewer(tenant: Tenant, name: str) -> Person:
    """Return the reviewer with this name, ignoring case as sign-in does. Raise `NoReviewer`."""
    found = None if "\x00" in name else _reviewers(tenant).filter(username__iexact=name).first()
    if found is None:
        raise NoReviewer(name)
    return found


def _reviewers(tenant: Tenant) -> "QuerySet[Person]":
    return Person.objects.filter(membership__tenant=tenant, membership__role__in=DECIDING, is_active=True)


def apply_change(
    *, tenant: Tenant, reference: str, seen_version: int | None, change: Callable[[Handoff], None]
) -> Handoff:
    """Apply `change` to a handoff in one transaction, and return the handoff.

    The handoff must still have the version `seen_version`; None skips this check. Raise `Handoff.DoesNotExist`,
    `Stale`, and the errors of `change`.
    """
    try:
        with transaction.atomic():
            handoff = queries.get(tenant, reference)
            if seen_version is not None and handoff.version != seen_version:
                raise stale_error(handoff)
            before = handoff.version
            change(handoff)
            if handoff.version == before:
                # Somebody repeats a change that is already stored, but a standby may lack it.
                db.await_standby()
    except transitions.VersionConflict:
        db.await_standby()
        raise stale_error(queries.get(tenant, reference)) from None
    except ReviewError:
        # The error may come from a change that a standby lacks, such as the same decision a moment ago.
        db.await_standby()
        raise
    long_poll.announce([handoff.pk])
    return handoff


def remark(handoff: Handoff, actor: Actor, reason: str) -> None:
    """Record an event that does not change the state.

    The version of the handoff increases, so that open pages notice the event. The current proposal and reassignment
    move to the new version and stay valid.
    """
    seen = handoff.version
    transitions.record_event(handoff, actor, reason)
    for model in (Proposal, PassedOn):
        kept = model.objects.filter(handoff=handoff.pk, version=seen, over=False)
        kept.update(version=handoff.version)


def end_waiting(handoff: Handoff, seen: int) -> None:
    """End the proposal and the reassignment at version `seen`, because a decision replaced them.

    The rows stay, so that undoing the decision can restore them.
    """
    for model in (Proposal, PassedOn):
        model.objects.filter(handoff=handoff.pk, version=seen, over=False).update(over=True)


def begin_waiting(handoff: Handoff, ended_at: int) -> None:
    """Restore the proposal and the reassignment that a decision on version `ended_at` ended."""
    for model in (Proposal, PassedOn):
        rows = model.objects.filter(handoff=handoff.pk, version=ended_at, over=True)
        rows.update(version=handoff.version, over=False)


def stale_error(handoff: Handoff) -> Stale:
    return Stale(handoff, last_event(handoff))


def last_event(handoff: Handoff) -> Event | None:
    return Event.objects.filter(handoff=handoff.pk).order_by("-id").first()


def last_change(handoff: Handoff) -> Event | None:
    """Return the last event, leaving out remarks of people and keys, such as assignments."""
    rows = Event.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).order_by("-id")
    return rows.exclude(from_state=F("to_state"), actor_kind__in=(ActorKind.PERSON, ActorKind.KEY)).first()
