"""The exceptions of the engine, and the flaws of a configuration that cannot be saved."""

from dataclasses import dataclass
from typing import Any

from handoffaudit.validation.text import brief, clean


class HandoffAuditError(Exception):
    """The base class of the engine's errors."""


class HandoffValidationError(HandoffAuditError):
    """Raised when a handoff or an output did not pass its validation."""


class SchemaValidationError(HandoffValidationError):
    """Raised when an output breaks its JSON Schema or its pydantic model."""


class EvidenceValidationError(HandoffValidationError):
    """Raised when too many claims of an output have no source."""


class BusinessRuleValidationError(HandoffValidationError):
    """Raised when an output breaks a business rule."""


class CritiqueValidationError(HandoffValidationError):
    """Raised when a second LLM scored an output below the acceptance threshold."""


class RemediationExhaustedError(HandoffValidationError):
    """Raised when an output did not pass, no try is left, and evidence is insufficient."""


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One value of a configuration that cannot be saved.

    `place` is the path of the value in the configuration (`rules[2].threshold`). `remedy` says how to correct the
    value.
    """

    place: str
    value: Any
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message} {self.remedy}" if self.place else f"{self.message} {self.remedy}"


def config_error(place: str, value: Any, message: str, remedy: str) -> ConfigError:
    """Return a flaw. Its value and texts are shortened and contain only characters that can be stored."""
    return ConfigError(clean(place), brief(value), clean(message, 400), clean(remedy, 400))


class InvalidConfigError(ValueError):
    """Raised for rules, a schema, claim fields or phase rules that cannot be read or saved.

    `flaws` lists every flaw.
    """

    def __init__(self, flaws: list[ConfigError]) -> None:
        super().__init__("; ".join(str(one) for one in flaws))
        self.flaws = flaws
