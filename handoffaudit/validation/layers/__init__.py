"""The layers in the order they run. A new layer is one module and one line here."""

from handoffaudit.validation.layers import (
    chain,
    consistency,
    evidence,
    grounding,
    references,
    rules,
    structure,
    tokens,
)
from handoffaudit.validation.layers.base import CouldNotRunError, Findings, History, Layer, Subject

__all__ = ["LAYERS", "CouldNotRunError", "Findings", "History", "Layer", "Subject"]

LAYERS: tuple[Layer, ...] = (structure, tokens, chain, references, consistency, evidence, grounding, rules)
