"""The provenance of findings in a trace: which step introduced each value, and which steps inherited it."""

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
