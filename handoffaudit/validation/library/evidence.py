"""The evidence layer as a validator."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handoffaudit.validation.claims import SHIPPED_FIELDS, Claim, ClaimKind, extract, parse_fields
from handoffaudit.validation.config import Demands
from handoffaudit.validation.layers import evidence
from handoffaudit.validation.library.engine import library_issues, output_type_of, record_of, subject_of
from handoffaudit.validation.library.envelopes import LLMEnvelope, LLMResult
from handoffaudit.validation.library.models import ClaimAnnotation, ClaimType, ValidationIssue, ValidationLayer
from handoffaudit.validation.paths import dotted
from handoffaudit.validation.plain import plain
from handoffaudit.validation.text import clean

_LONGEST_TEXT = 500


class EvidenceValidator:
    """Asks of every claim what it rests on.

    `claim_fields`: for output types, the dotted paths of their claims (`*` for any list item or object value), beside
    the shipped ones and in place of them where they name the same type. Of a type without paths, every text and number
    at the top of the output is a claim. Raises `InvalidDemand` for a path that cannot be read.
    """

    layer_name = ValidationLayer.EVIDENCE.value

    def __init__(self, max_uncited_ratio: float = 0.3, claim_fields: Mapping[str, Sequence[str]] | None = None) -> None:
        self._max_uncited_ratio = max_uncited_ratio
        given = {output_type: parse_fields(list(paths)) for output_type, paths in (claim_fields or {}).items()}
        self._claim_fields: dict[str, tuple[str, ...]] = {**SHIPPED_FIELDS, **given}

    def validate(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, result: LLMResult | None = None
    ) -> list[ValidationIssue]:
        record = record_of(parsed_output, envelope)
        demands = Demands(claim_fields=self._claim_fields.get(output_type_of(parsed_output)))
        subject = subject_of(record, demands, max_uncited_ratio=self._max_uncited_ratio)
        return library_issues(evidence.check(subject))

    def extract_claims(
        self, parsed_output: dict[str, Any], output_type: str, available_sources: Iterable[str]
    ) -> list[ClaimAnnotation]:
        """Extract every claim of the output.

        A claim is cited where at least one of its sources is available; its `validator_confidence` is the share of its
        sources that are. A claim field that points at too many values to be read has no claims here, and `validate`
        reports it.
        """
        data, supplied = plain(parsed_output), set(available_sources)
        if not isinstance(data, dict):
            return []
        found = extract(data, self._claim_fields.get(output_type), supplied=supplied)
        return [_annotation(claim, supplied) for claim in found.claims]


def _public_type(claim: Claim) -> ClaimType:
    if claim.claim_type is ClaimKind.CITES_UNKNOWN:
        return ClaimType.UNCITED
    return ClaimType(claim.claim_type.value)


def _annotation(claim: Claim, supplied: set[str]) -> ClaimAnnotation:
    ids = list(claim.evidence_ids)
    return ClaimAnnotation(
        claim_id=claim.claim_id,
        field_path=clean(dotted(claim.location), _LONGEST_TEXT),
        claim_text=clean(claim.text, _LONGEST_TEXT),
        claim_type=_public_type(claim),
        evidence_ids=ids,
        confidence=claim.confidence,
        validator_confidence=sum(one in supplied for one in ids) / len(ids) if ids else 0.0,
    )
