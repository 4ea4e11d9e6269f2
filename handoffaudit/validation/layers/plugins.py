"""Layers of users: wrapped validators, and the validators that installed packages offer as entry points."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from handoffaudit.validation.errors import HandoffAuditError
from handoffaudit.validation.issues import Issue, Severity, limit_mixed_issues
from handoffaudit.validation.json_text import to_json
from handoffaudit.validation.layers import LAYERS, CouldNotRunError, Layer, Subject
from handoffaudit.validation.paths import ANY, MISSING, Location, PathError, parse_path, select
from handoffaudit.validation.record import placer
from handoffaudit.validation.text import brief, clean, show

__all__ = ["GROUP", "IValidator", "PluginError", "installed_layers", "wrap"]

GROUP = "handoffaudit.layers"
_HINT = "Ask the person who added the layer."
# The names of the engine's layers, of the layers that only the library's pipeline has, and of the layers that ask an
# LLM.
_RESERVED = frozenset(layer.name for layer in LAYERS) | {"schema", "business_rule", "semantic", "critique"}
_LONGEST_NAME = 40
_LONGEST_CODE = 120
_LONGEST_TEXT = 600


@runtime_checkable
class IValidator(Protocol):
    """A validation layer of your own.

    `validate` receives the data of the handoff, an `LLMEnvelope` with the context and the evidence, and an `LLMResult`
    with the same data. `validate` returns one `ValidationIssue` for each finding.
    """

    @property
    def layer_name(self) -> str: ...

    def validate(self, parsed_output: dict[str, Any], envelope: Any, result: Any) -> list[Any]: ...


class PluginError(HandoffAuditError):
    """An error about a validator that cannot be a layer."""


@dataclass(frozen=True, slots=True)
class UsersLayer:
    """A user's validator as a layer; any exception of the validator becomes the layer status `error`."""

    validator: IValidator
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.validator.layer_name)

    def skip(self, subject: Subject) -> str | None:
        return None

    def check(self, subject: Subject) -> Iterable[Issue]:
        try:
            # The validator gets a copy, because its changes must not reach the layers after it.
            data = copy.deepcopy(subject.record.data)
            envelope, result = _envelope(subject, data)
            found = list(self.validator.validate(data, envelope, result) or ())
            issues = [_issue(self.name, one, subject) for one in found]
        except Exception as error:
            raise CouldNotRunError(clean(f"{type(error).__name__}: {error}")) from error
        return limit_mixed_issues(issues)


def wrap(validator: object) -> Layer:
    """Return a validator as a layer.

    Raises PluginError if the object is not a validator. Also raises PluginError if its name is not a text of 1 to 40
    characters, or is the name of a shipped layer.
    """
    if not isinstance(validator, IValidator) or not callable(validator.validate):
        message = f"{type(validator).__name__} must have layer_name and validate(parsed_output, envelope, result)."
        raise PluginError(message)
    name, kind = validator.layer_name, type(validator).__name__
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise PluginError(f"The layer_name of {kind} is not a text of 1 to {_LONGEST_NAME} characters.")
    if name in _RESERVED:
        raise PluginError(f"A layer named {show(name)} is shipped: give {kind} another layer_name.")
    return UsersLayer(validator)


@cache
def installed_layers() -> tuple[Layer, ...]:
    """Return the layers of the installed packages, ordered by entry point name. The packages are searched only once."""
    return layers_of(entry_points(group=GROUP))


def layers_of(points: Iterable[EntryPoint]) -> tuple[Layer, ...]:
    """Return the layers that the entry points offer, ordered by entry point name.

    Each entry point names a validator, or a callable without arguments that returns a validator. Raises PluginError if
    an entry point cannot be loaded or is not a validator, or if two layers have the same name.
    """
    layers: dict[str, Layer] = {}
    for point in sorted(points, key=lambda one: (one.name, one.value)):
        layer = wrap(_load_layer(point))
        if layer.name in layers:
            raise PluginError(f"Two entry points offer a layer named {show(layer.name)}; keep one of them.")
        layers[layer.name] = layer
    return tuple(layers.values())


def _load_layer(point: EntryPoint) -> object:
    try:
        offered = point.load()
        return offered() if isinstance(offered, type) or not hasattr(offered, "layer_name") else offered
    except Exception as error:
        message = f"The layer {show(point.name)} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
        raise PluginError(message) from error


def _envelope(subject: Subject, data: dict[str, Any]) -> tuple[Any, Any]:
    # The import is here, because loading pydantic models takes long, and only layers of users need these models.
    from handoffaudit.validation.library.models import EvidenceItem, LLMEnvelope, LLMResult  # noqa: PLC0415

    record = subject.record
    items = [item for item in record.evidence if isinstance(item, dict) and isinstance(item.get("source"), str)]
    envelope = LLMEnvelope(
        instructions="",
        trace_id=record.trace_id,
        agent_id=record.source_agent_id,
        tenant_id=record.tenant_id or "",
        context=copy.deepcopy(record.context),
        retrieved_evidence=[
            EvidenceItem(source=item["source"], content=copy.deepcopy(item.get("content"))) for item in items
        ],
        expected_output_schema={} if record.expected_schema is None else record.expected_schema,
    )
    result = LLMResult(envelope_id=envelope.envelope_id, trace_id=record.trace_id, parsed_output=data)
    return envelope, result


def _issue(layer: str, found: Any, subject: Subject) -> Issue:
    """Return the issue of a user's validator as an issue of the engine.

    An object that is not an issue raises an error, which becomes the layer status `error`.
    """
    # Only a finding of a user's layer needs the catalogue, so a command that judges files starts without it.
    from handoffaudit.validation.layers import CATALOGUE, FAMILIES  # noqa: PLC0415

    if not all(hasattr(found, name) for name in ("code", "message", "severity")):
        raise TypeError(f"validate returned {show(type(found).__name__)}, which is not a ValidationIssue")
    code = clean(str(found.code), _LONGEST_CODE)
    metadata = _json(getattr(found, "metadata", None))
    metadata = metadata if isinstance(metadata, dict) else {}
    return Issue(
        layer=layer,
        code=f"{layer}.{code}" if code in CATALOGUE or code.partition(".")[0] in FAMILIES else code,
        severity=Severity(found.severity),
        message=clean(str(found.message), _LONGEST_TEXT),
        hint=clean(str(getattr(found, "hint", "") or metadata.get("hint", "") or _HINT), _LONGEST_TEXT),
        location=_location(str(getattr(found, "field_path", "") or ""), subject),
        expected=_json(getattr(found, "expected", None)),
        actual=_json(getattr(found, "actual", None)),
        metadata=metadata,
    )


def _json(value: Any) -> Any:
    return brief(to_json(value))


def _location(path: str, subject: Subject) -> Location:
    """Convert a path inside the data to a location in the document.

    A text that is not a path, or that has a wildcard, becomes a location with this text as its only part.
    """
    if not path:
        return ()
    try:
        parts = parse_path(path)
    except PathError:
        return (clean(path),)
    if ANY in parts:
        return (clean(path),)
    place, value = next(select(subject.record.data, parts))
    place = tuple(clean(part) if isinstance(part, str) else part for part in place)
    return placer(subject.record)(place) if value is not MISSING else place
