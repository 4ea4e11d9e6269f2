"""A claim: a field of the data that states something, what it rests on, and the values in it that were looked up."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from handoffaudit.validation.paths import Location, dotted, pointer

if TYPE_CHECKING:  # a layer's package, whose modules import this one
    from handoffaudit.validation.layers.grounding.marks import Mark

LONGEST_TEXT = 500


class ClaimType(StrEnum):
    CITED = "cited"
    ASSUMPTION = "assumption"
    UNCITED = "uncited"
    DERIVED = "derived"


@dataclass(frozen=True, slots=True)
class Claim:
    """`location` from the root of the data, `place` from the root of the document. `text` is whole; what is kept in a
    verdict is cut at 500 characters. `marks` say which values of the text are grounded, by their place in it."""

    claim_id: str
    location: Location
    place: Location
    text: str
    claim_type: ClaimType
    evidence_ids: tuple[str, ...] = ()
    confidence: float = 1.0
    validator_confidence: float = 0.0
    marks: tuple["Mark", ...] = ()


def claim_to_dict(claim: Claim) -> dict[str, Any]:
    """The claim as the API and files show it."""
    return {
        "claim_id": claim.claim_id,
        "field_path": dotted(claim.location),
        "json_pointer": pointer(claim.place),
        "claim_text": claim.text[:LONGEST_TEXT],
        "claim_type": claim.claim_type.value,
        "evidence_ids": list(claim.evidence_ids),
        "confidence": claim.confidence,
        "validator_confidence": claim.validator_confidence,
        "values": [_mark_dict(mark) for mark in claim.marks],
    }


def _mark_dict(mark: "Mark") -> dict[str, Any]:
    return {
        "kind": mark.kind,
        "start": mark.start,
        "end": mark.end,
        "text": mark.text,
        "status": mark.status,
        "where": list(mark.where),
        "closest": mark.closest,
    }
