"""Provenance of the findings along a trace: the step that introduced each value, and the steps that carried it on."""

from handoffaudit.validation.provenance.attribution import Attributed, Flaw, Step, attribute, flaws_of, step_of, tainted
from handoffaudit.validation.provenance.origins import (
    Origin,
    Share,
    Sign,
    Suspect,
    first_wrong,
    origins,
    shares,
    suspects,
)

__all__ = [
    "Attributed",
    "Flaw",
    "Origin",
    "Share",
    "Sign",
    "Step",
    "Suspect",
    "attribute",
    "first_wrong",
    "flaws_of",
    "origins",
    "shares",
    "step_of",
    "suspects",
    "tainted",
]
