"""What people do with handoffs that wait for them: decide, alone or as the second of two; decide again; pass on."""

from handoffaudit.handoffs.reviewing.deciding import STATES, Decision, Result, decide
from handoffaudit.handoffs.reviewing.deciding_many import decide_many
from handoffaudit.handoffs.reviewing.errors import (
    MAX_NOTE,
    NoReviewer,
    NotApprovable,
    NoteRequired,
    NoteTooLong,
    NothingToUndo,
    NotPassedOn,
    NotReopenable,
    NotReviewable,
    ReviewError,
    Stale,
    TooMany,
)
from handoffaudit.handoffs.reviewing.passing import pass_on, passed_on, passed_on_of, reviewers, take_back
from handoffaudit.handoffs.reviewing.precedents import Precedent, similar
from handoffaudit.handoffs.reviewing.progressing import MOST_COUNTED, Progress, Waiting, progress, waiting
from handoffaudit.handoffs.reviewing.proposing import is_by, needs_four_eyes, proposal_of, proposals
from handoffaudit.handoffs.reviewing.queueing import VIEWS, queue
from handoffaudit.handoffs.reviewing.reopening import UNDO_MINUTES, reopen, undo
from handoffaudit.handoffs.reviewing.searching import Searched, search
from handoffaudit.handoffs.reviewing.selecting import (
    MOST_AT_ONCE,
    MOST_PER_REQUEST,
    Decided,
    Matching,
    Refusal,
    Selection,
    decide_matching,
    matching,
    shown_of,
    told,
)

__all__ = [
    "MAX_NOTE",
    "MOST_AT_ONCE",
    "MOST_COUNTED",
    "MOST_PER_REQUEST",
    "STATES",
    "UNDO_MINUTES",
    "VIEWS",
    "Decided",
    "Decision",
    "Matching",
    "NoReviewer",
    "NotApprovable",
    "NotPassedOn",
    "NotReopenable",
    "NotReviewable",
    "NoteRequired",
    "NoteTooLong",
    "NothingToUndo",
    "Precedent",
    "Progress",
    "Refusal",
    "Result",
    "ReviewError",
    "Searched",
    "Selection",
    "Stale",
    "TooMany",
    "Waiting",
    "decide",
    "decide_many",
    "decide_matching",
    "is_by",
    "matching",
    "needs_four_eyes",
    "pass_on",
    "passed_on",
    "passed_on_of",
    "progress",
    "proposal_of",
    "proposals",
    "queue",
    "reopen",
    "reviewers",
    "search",
    "shown_of",
    "similar",
    "take_back",
    "told",
    "undo",
    "waiting",
]
