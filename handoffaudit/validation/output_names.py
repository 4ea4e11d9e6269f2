"""Layers as senders of outputs know them, and the lines in which these are told what stands in the way."""

from collections.abc import Iterable

from handoffaudit.validation.issues import Severity

_TO_ENGINE = {"schema": "structure", "business_rule": "rules"}
_FROM_ENGINE = {engine: theirs for theirs, engine in _TO_ENGINE.items()}
_GRAVE = (Severity.ERROR, Severity.CRITICAL)


def engine_layer(name: str) -> str:
    """`schema` is the engine's `structure`, `business_rule` its `rules`; other layers have one name."""
    return _TO_ENGINE.get(name, name)


def library_layer(name: str) -> str:
    return _FROM_ENGINE.get(name, name)


def error_lines(found: Iterable[tuple[str, Severity, str]]) -> list[str]:
    """Of each issue's layer (by either name), severity and message: errors and criticals as
    `[layer:severity] message`."""
    return [
        f"[{library_layer(layer)}:{severity}] {message}" for layer, severity, message in found if severity in _GRAVE
    ]
