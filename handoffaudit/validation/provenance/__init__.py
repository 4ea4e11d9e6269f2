"""Where what is wrong along a trace first came up, and who carried it on."""

from handoffaudit.validation.provenance.attribution import Attributed, Flaw, Step, attribute, flaws_of, step_of, tainted
from handoffaudit.validation.provenance.origins import Origin, Share, first_wrong, origins, shares
from handoffaudit.validation.provenance.suspects import Sign, Suspect, suspects

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
