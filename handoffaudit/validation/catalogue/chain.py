"""Codes of the `chain` layer."""

from handoffaudit.validation.catalogue.entry import Code
from handoffaudit.validation.issues import Severity

CODES = (
    Code(
        "chain.self_handoff",
        "chain",
        Severity.ERROR,
        "Handed to itself",
        "Source and target are the same agent. No person can approve this.",
        "Name another target, or keep the work without handing it over.",
        approvable=False,
    ),
    Code(
        "chain.circular",
        "chain",
        Severity.ERROR,
        "Circular chain",
        "The target has had this work before, and no reason is given for returning to it.",
        "Give the reason in handoff_reason, so that a person can decide; or name another target.",
    ),
    Code(
        "chain.circular_with_reason",
        "chain",
        Severity.WARNING,
        "Circular chain with a reason",
        "The target has had this work before, and a reason is given: a person decides.",
        "A reviewer approves or declines it; to avoid the wait, name a target that is not in the chain.",
        holds=True,
    ),
    Code(
        "chain.needs_approval",
        "chain",
        Severity.WARNING,
        "Long chain needs approval",
        "The chain is longer than this type may have without approval: a person decides.",
        "A reviewer approves or declines it; if a person has approved it already, send user_approved: true.",
        holds=True,
    ),
    Code(
        "chain.over_recommended",
        "chain",
        Severity.WARNING,
        "Chain over the recommended length",
        "The chain is longer than recommended for its type.",
        "Close the piece of work and start a new one, or hand over through fewer agents.",
    ),
    Code(
        "chain.declared_differs",
        "chain",
        Severity.WARNING,
        "Declared chain differs",
        "The chain that the sender declares is not the one known from the earlier handoffs of the trace.",
        "Take over the chain of the handoff before and add the source agent at its end.",
    ),
    Code(
        "chain.repeats_without_progress",
        "chain",
        Severity.ERROR,
        "Repeats without progress",
        "The same source gives the same target the same data for the third time in one trace.",
        "Change the data, add what was learned since, or let a person decide how to go on.",
    ),
    Code(
        "chain.source_not_first",
        "chain",
        Severity.WARNING,
        "Source is not first in the chain",
        "The source skill is not the first entry of handoff_chain.",
        "Put source.skill first in handoff_chain.",
    ),
    Code(
        "chain.unknown_target",
        "chain",
        Severity.WARNING,
        "Target is not known",
        "The target is not in the registry of known agents, so that nobody may take the work up.",
        "Name a known agent, or add the target's skill to the registry.",
    ),
)
