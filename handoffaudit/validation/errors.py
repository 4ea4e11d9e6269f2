"""What the library raises. What a sender sent is never raised, but told as issues: these are for code that asks for an
exception, and for wrong use."""


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
