"""Errors that the library raises, and what is wrong with rules, schemas or claim fields that cannot be set."""

from dataclasses import dataclass
from typing import Any

from handoffaudit.validation.text import brief, clean


class HandoffAuditError(Exception):
    """The root of all of them."""


class HandoffValidationError(HandoffAuditError):
    """A handoff or an output did not pass."""


class SchemaValidationError(HandoffValidationError):
    """It breaks its schema or its model."""


class EvidenceValidationError(HandoffValidationError):
    """Too much of it rests on no source."""


class BusinessRuleValidationError(HandoffValidationError):
    """It breaks a business rule."""


class CritiqueValidationError(HandoffValidationError):
    """A second model scored it below the acceptance threshold."""


class RemediationExhaustedError(HandoffValidationError):
    """It did not pass, and no try is left."""


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One value that cannot be set: where it stands (`rules[2].threshold`), and what would make it right."""

    place: str
    value: Any
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message} {self.remedy}" if self.place else f"{self.message} {self.remedy}"


def config_error(place: str, value: Any, message: str, remedy: str) -> ConfigError:
    """A flaw whose value and texts are cut to size and can be stored."""
    return ConfigError(clean(place), brief(value), clean(message, 400), clean(remedy, 400))


class InvalidConfigError(ValueError):
    """Rules, a schema or claim fields that cannot be set; `flaws` says why."""

    def __init__(self, flaws: list[ConfigError]) -> None:
        super().__init__("; ".join(str(one) for one in flaws))
        self.flaws = flaws
