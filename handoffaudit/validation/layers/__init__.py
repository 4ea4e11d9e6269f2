"""The layers in the order they run. A new layer is one module and one line here."""

from typing import Protocol

from handoffaudit.validation.issues import Code
from handoffaudit.validation.layers import (
    chain,
    consistency,
    critique,
    evidence,
    grounding,
    references,
    rules,
    semantic,
    structure,
    tokens,
)
from handoffaudit.validation.layers.base import (
    AskedLater,
    CouldNotRunError,
    Findings,
    History,
    Layer,
    NotCheckedError,
    Subject,
)

__all__ = [
    "LAYERS",
    "MODEL_LAYERS",
    "AskedLater",
    "CouldNotRunError",
    "Findings",
    "History",
    "Layer",
    "NotCheckedError",
    "Subject",
]


class ShippedLayer(Layer, Protocol):
    """A layer of this package; `CODES` are the rule codes of its findings."""

    @property
    def CODES(self) -> tuple[Code, ...]: ...  # noqa: N802


LAYERS: tuple[ShippedLayer, ...] = (structure, tokens, chain, references, consistency, evidence, grounding, rules)
MODEL_LAYERS: tuple[ShippedLayer, ...] = (semantic, critique)
"""Layers that ask an LLM. They run after the other layers, if an LLM is to be asked."""
