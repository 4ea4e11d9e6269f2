"""What is due after a result: the engine's decision, with a policy for each output type."""

from collections.abc import Iterable, Mapping

from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.library.defaults import new_id, utc_now
from handoffaudit.validation.library.models import ValidationResult
from handoffaudit.validation.remediation import Facts, decide, is_evidence_error
from handoffaudit.validation.remediation_models import RemediationAction, RemediationPolicy, RemediationRecord


class RemediationEngine:
    """`policies`: one for each output type; that of `*` is for all others."""

    def __init__(self, policies: Iterable[RemediationPolicy] | Mapping[str, RemediationPolicy] | None = None) -> None:
        given = policies.values() if isinstance(policies, Mapping) else policies or ()
        self._policies = {policy.output_type: policy for policy in given}

    def get_policy(self, output_type: str) -> RemediationPolicy:
        """The policy of the type, else that of `*`, else the shipped one."""
        return self._policies.get(output_type) or self._policies.get(ANY_OTHER_TYPE) or RemediationPolicy()

    def decide(
        self,
        result: ValidationResult,
        record: RemediationRecord | None = None,
        *,
        current_record: RemediationRecord | None = None,
    ) -> tuple[RemediationAction, RemediationRecord]:
        """Return the action due now, and the record with that action added.

        `record` is the record of the tries before, None for the first try. `current_record` is another name for it.
        Raises TypeError where both are given.
        """
        if record is not None and current_record is not None:
            raise TypeError("decide takes record or current_record, not both: they are the same argument")
        record = record or current_record
        facts = Facts(
            validation_id=result.validation_id,
            passed=result.overall_passed,
            severities=frozenset(issue.severity for issue in result.issues),
            has_evidence_error=any(is_evidence_error(issue.layer, issue.severity) for issue in result.issues),
        )
        policy, before = self.get_policy(result.output_type), record.log() if record else None
        action, log = decide(facts, before, policy=policy, now=utc_now(), new_id=new_id)
        return RemediationAction(action), RemediationRecord.of(log)
