"""Repair: candidates for a rejected document, in three tries, each judged.

This package applies no candidate: its caller decides.
"""

from handoffaudit.validation.repair.results import Attempt, Means, Repair, RepairStatus, Try, budget_of, repair_to_dict
from handoffaudit.validation.repair.run import TRIES, is_left_to_model, repair, tries_with
from handoffaudit.validation.repair.session_context import HeldFiles, check_inside, session_context

__all__ = [
    "TRIES",
    "Attempt",
    "HeldFiles",
    "Means",
    "Repair",
    "RepairStatus",
    "Try",
    "budget_of",
    "check_inside",
    "is_left_to_model",
    "repair",
    "repair_to_dict",
    "session_context",
    "tries_with",
]
