"""Policy cases: copies of handoffs with the verdict that each should have, and tests of policies with these cases.

A case is a copy of a submission and of what was known about its trace. So the verdict on a case depends only
on the policies.
"""

import base64
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
import orjson
from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.utils import timezone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import legal_holds, lineage, queries, tool_results
from handoffaudit.handoffs.case_results import CaseResult, compare
from handoffaudit.handoffs.ingest.prepare import prepare_copy, read_submission
from handoffaudit.handoffs.legal_holds import Holds
from handoffaudit.handoffs.models import Handoff, HandoffBody, PolicyCase, new_id
from handoffaudit.handoffs.trace_facts import Snapshot, TraceFacts, load_facts
from handoffaudit.handoffs.verdicts import ASK_LATER, PriorContext, envelope_of, verdict_on_prepared
from handoffaudit.policy import kinds
from handoffaudit.policy.models import Kind
from handoffaudit.validation.claims import Source
from handoffaudit.validation.config import ANY_OTHER_TYPE, ValidationConfig
from handoffaudit.validation.layers import CATALOGUE, FAMILIES
from handoffaudit.validation.layers.base import History
from handoffaudit.validation.layers.plugins import installed_layers
from handoffaudit.validation.submission import UNREADABLE, Submission, fields_of, usable_text
from handoffaudit.validation.text import storable
from handoffaudit.validation.times import utc_text
from handoffaudit.validation.verdict import Outcome

KEPT, REMOVED = "case.keep", "case.remove"
MOST_CASES: Final = 500
LARGEST: Final = 512 * 1024
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_CODES: Final = 20
LONGEST_CODE: Final = 200
LONGEST_NOTE: Final = 2_000
# One request tests cases for about this many seconds, and at least one case.
SECONDS: Final = 1.0


class Basis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chain, tool results and facts of the trace that were known when the handoff was judged."""

    history: History = History()
    evidence: tuple[Source, ...] = ()
    facts: Snapshot = Snapshot()


@dataclass(frozen=True, slots=True)
class CasePolicy:
    """The policies by which cases are judged; `strict_files` says whether only the handoff file counts."""

    config: ValidationConfig
    strict_files: bool

    @classmethod
    def of_tenant(cls, tenant: Tenant, draft: Mapping[Kind, Sequence[Any]] | None = None) -> "CasePolicy":
        """Return the policies in force, with the rows of a draft in place of the rows of the same kinds."""
        rows = {Kind.HANDOFF_FILES: kinds.file_policy.current(tenant).rows} | dict(draft or {})
        return cls._of(kinds.load_config(tenant.pk), rows)

    @classmethod
    def of_file(cls, draft: Mapping[Kind, Sequence[Any]]) -> "CasePolicy":
        """Return the policies of a new tenant, with the rows of a draft. The database is not read."""
        return cls._of(kinds.shipped_config(), {Kind.HANDOFF_FILES: kinds.file_policy.shipped} | dict(draft))

    @classmethod
    def _of(cls, config: ValidationConfig, rows: Mapping[Kind, Sequence[Any]]) -> "CasePolicy":
        (files,) = rows[Kind.HANDOFF_FILES]
        return cls(kinds.replace_rows(config, rows), files.strict_handoff_files)


def _check_text(text: str) -> str:
    if not storable(text):
        raise ValueError("It contains characters that can't be stored")
    return text


def _check_code(code: str) -> str:
    if not code or not code.isprintable() or code != code.strip() or " " in code:
        raise ValueError(f"{code[:80]!r} is not a rule code, such as chain.circular")
    return code


_Text = Annotated[str, AfterValidator(_check_text)]
Codes = Annotated[
    list[Annotated[str, AfterValidator(_check_text), AfterValidator(_check_code), Field(max_length=LONGEST_CODE)]],
    Field(max_length=MOST_CODES),
]


class CaseFields(BaseModel):
    """A case as it is exported. `beside` and `basis` are JSON as text, so that the numbers in them stay the same."""

    model_config = ConfigDict(extra="forbid")

    handoff_id: Annotated[
        _Text, Field(max_length=200, description="The id of the handoff. Test results name the case by this id.")
    ]
    expected: Outcome = Field(description="The verdict that the handoff should have: accepted, rejected or held.")
    must_have: Codes = Field(default_factory=list, description="Rule codes that must be found.")
    must_not_have: Codes = Field(default_factory=list, description="Rule codes that must not be found.")
    note: Annotated[_Text, Field(max_length=LONGEST_NOTE)] = Field("", description="Why the case is kept.")
    received_at: tool_results.Time = Field(description="When the handoff arrived.")
    document: str | None = Field(None, max_length=LARGEST, description="The document as it arrived.")
    document_base64: str | None = Field(
        None, max_length=2 * LARGEST, description="The document in Base64, if it is not UTF-8."
    )
    beside: str = Field("{}", max_length=LARGEST, description="The fields beside the document, as JSON.")
    basis: str = Field("{}", max_length=LARGEST, description="What was known about the trace, as JSON.")

    @model_validator(mode="after")
    def _check(self) -> "CaseFields":
        if (self.document is None) == (self.document_base64 is None):
            raise ValueError("A case has either document or document_base64")
        if repeated := set(self.must_have) & set(self.must_not_have):
            raise ValueError(f"{min(repeated)} is in must_have and in must_not_have")
        try:
            if "document" in fields_of(self.beside.encode()):
                raise ValueError("beside must not contain document, which is a field of the case")
            _BASIS.decode(self.basis)
        except (*UNREADABLE, msgspec.ValidationError) as error:
            raise ValueError(f"beside or basis is not as exported: {error}") from error
        if submission_of(self.to_case()).issues:
            raise ValueError("beside has a field that cannot be read")
        return self

    def to_case(self) -> PolicyCase:
        """Return an unsaved case. Raise `ValueError` if the document is not Base64."""
        document = base64.b64decode(self.document_base64 or "", validate=True)
        if self.document is not None:
            document = self.document.encode()
        return PolicyCase(
            handoff_id=self.handoff_id,
            document=document,
            beside=self.beside,
            basis=self.basis,
            received_at=self.received_at,
            expected=self.expected.value,
            must_have=self.must_have,
            must_not_have=self.must_not_have,
            note=self.note,
        )


_BASIS: Final = msgspec.json.Decoder(Basis)


def to_plain(case: PolicyCase) -> dict[str, Any]:
    """Return a case as `CaseFields` reads it."""
    raw = bytes(case.document)
    try:
        document = {"document": raw.decode()}
    except UnicodeDecodeError:
        document = {"document_base64": base64.b64encode(raw).decode()}
    return {
        "handoff_id": case.handoff_id,
        "expected": case.expected,
        "must_have": case.must_have,
        "must_not_have": case.must_not_have,
        "note": case.note,
        "received_at": utc_text(case.received_at),
        **document,
        "beside": case.beside,
        "basis": case.basis,
    }


def submission_of(case: PolicyCase) -> Submission:
    """Return the submission of a case. The `issues` of the submission concern only the fields beside the document."""
    fields = case.beside.strip().removeprefix("{")
    start = b'{"document":null' + (b"" if fields.strip() == "}" else b",")
    read = read_submission(start + fields.encode())
    return read if read.issues else msgspec.structs.replace(read, document=bytes(case.document))


def keep(
    *,
    tenant: Tenant,
    reference: str,
    expected: str,
    actor: str,
    must_have: Iterable[str] = (),
    must_not_have: Iterable[str] = (),
    note: str = "",
) -> PolicyCase:
    """Keep a copy of a handoff as a case, with the verdict that the handoff should have, and test the case.

    The test uses the policies in force. Raise `Handoff.DoesNotExist`, or `Refused` for invalid values, a removed
    document, a handoff that is too large, or too many cases.
    """
    handoff = queries.get(tenant, reference)
    case = _copy(handoff)
    case.expected, case.note = _check_expected(expected), _check_note(note)
    case.must_have = _check_codes("must_have", must_have)
    case.must_not_have = _check_codes("must_not_have", must_not_have)
    if repeated := set(case.must_have) & set(case.must_not_have):
        raise Refused(f"{min(repeated)} is in both lists", "must_not_have", "write it into one of them.")
    case.created_by, case.created_at = actor[:200], timezone.now()
    with transaction.atomic():
        audit.lock_tenant(tenant)
        known = PolicyCase.objects.filter(tenant=tenant).aggregate(number=Count("id"), size=Sum("size", default=0))
        if known["number"] >= MOST_CASES or known["size"] + case.size > MOST_BYTES:
            said = f"A tenant has at most {MOST_CASES} cases, with at most {MOST_BYTES // 2**20} MiB in total"
            raise Refused(said, "", "remove a case first.")
        case.save(force_insert=True)
        detail = {"case": str(case.pk), "handoff": str(handoff.pk), "expected": case.expected}
        audit.record(tenant=tenant, actor=actor, action=KEPT, target=handoff.handoff_id, detail=detail)
    judge_stored(tenant, [case])
    return case


def _copy(handoff: Handoff) -> PolicyCase:
    body = HandoffBody.objects.filter(pk=handoff.pk).first()
    if body is None:
        raise Refused("The document was removed, so nothing is left to keep", "", "keep another handoff.")
    envelope = msgspec.to_builtins(envelope_of(handoff, body), builtin_types=(datetime,))
    # The stored bytes are copied, because parsing and writing the JSON would change large numbers.
    stored = {name: getattr(body, name) for name in ("context", "evidence")}
    beside: dict[str, Any] = {
        name: value for name, value in envelope.items() if value is not None and value is not False
    }
    beside |= {name: orjson.Fragment(bytes(raw)) for name, raw in stored.items() if raw is not None}
    if handoff.format:
        beside["format"] = handoff.format
    if handoff.sent_at:
        beside["sent_at"] = utc_text(handoff.sent_at)
    basis = Basis(
        lineage.load_histories([handoff])[handoff.pk],
        tool_results.load_evidence([handoff]).of(handoff),
        load_facts([handoff]).snapshot(handoff),
    )
    case = PolicyCase(
        id=new_id(),
        tenant_id=handoff.tenant_id,
        handoff=handoff.pk,
        handoff_id=handoff.handoff_id,
        handoff_type=handoff.handoff_type,
        document=bytes(body.original),
        beside=orjson.dumps(beside).decode(),
        basis=msgspec.json.encode(basis).decode(),
        received_at=handoff.received_at,
    )
    case.size = len(case.document) + len(case.beside.encode()) + len(case.basis.encode())
    if case.size > LARGEST:
        said = f"The handoff has {case.size:,} bytes with its context and its trace"
        raise Refused(said, "", f"a case has at most {LARGEST:,} bytes: keep a smaller one.")
    return case


def _check_expected(expected: str) -> str:
    if expected not in set(Outcome):
        raise Refused(f"{expected[:40]!r} is not a verdict", "expected", f"use one of {', '.join(Outcome)}.")
    return expected


def _check_note(note: str) -> str:
    note = note.strip()
    if len(note) > LONGEST_NOTE or not storable(note):
        remedy = f"write at most {LONGEST_NOTE:,} characters without NUL."
        raise Refused("The note cannot be stored", "note", remedy)
    return note


def _check_codes(field: str, codes: Iterable[str]) -> list[str]:
    """Return the codes, each once.

    Raise `Refused` for too many codes, and for a code that no layer can report. A test for such a code would have the
    same result under every policy. If layers are installed as plugins, any storable code is accepted.
    """
    found = list(dict.fromkeys(code.strip() for code in codes if code.strip()))
    if len(found) > MOST_CODES:
        raise Refused(f"There are {len(found)} codes", field, f"name at most {MOST_CODES}.")
    for code in found:
        is_shipped = code in CATALOGUE or code.partition(".")[0] in FAMILIES
        if len(code) > LONGEST_CODE or not storable(code) or not (is_shipped or installed_layers()):
            raise Refused(f"{code[:80]!r} is not a rule code", field, "write codes of the help page, one in each line.")
    return found


def list_cases(tenant: Tenant, *, after: uuid.UUID | None = None) -> "QuerySet[PolicyCase]":
    """Return the cases of a tenant, oldest first; with `after`, only the cases after this id."""
    rows = PolicyCase.objects.filter(tenant=tenant).order_by("id")
    return rows if after is None else rows.filter(id__gt=after)


def of_types(tenant: Tenant, handoff_types: Collection[str]) -> "QuerySet[PolicyCase]":
    """Return the cases that a change for these types can affect; all cases if there are no types."""
    rows = list_cases(tenant)
    # The row "any other type" also applies to types that no handoff had yet, so no list of types is complete.
    is_any = not handoff_types or ANY_OTHER_TYPE in handoff_types
    return rows if is_any else rows.filter(handoff_type__in=handoff_types)


def remove(*, tenant: Tenant, case: uuid.UUID, actor: str) -> PolicyCase:
    """Remove a case. Raise `PolicyCase.DoesNotExist`, or `Refused` under a legal hold."""
    with transaction.atomic():
        holds = legal_holds.share(tenant)
        found = PolicyCase.objects.select_for_update().get(tenant=tenant, pk=case)
        if _is_held(found, holds):
            raise Refused("The handoff of this case is under a legal hold", "", "lift the hold first.")
        found.delete()
        detail = {"case": str(case), "expected": found.expected}
        audit.record(tenant=tenant, actor=actor, action=REMOVED, target=found.handoff_id, detail=detail)
    return found


def _is_held(case: PolicyCase, holds: Holds) -> bool:
    # The trace is read from the case, because its handoff may have been removed before the hold was placed.
    trace = usable_text(fields_of(case.beside.encode()).get("trace_id"))
    return case.handoff in holds.handoffs or holds.covers_trace(trace or "")


def judge_case(case: PolicyCase, policy: CasePolicy) -> CaseResult:
    """Judge a case by policies, without any call to the LLM, and compare the verdict with the expected verdict."""
    prepared = prepare_copy(submission_of(case), case.received_at)
    basis, handoff = _BASIS.decode(case.basis), prepared.as_model()
    before = PriorContext(
        basis.history,
        facts=TraceFacts.of_snapshot(handoff, basis.facts),
        evidence=basis.evidence,
        strict_files=policy.strict_files,
    )
    verdict = verdict_on_prepared(prepared, before, policy.config, model=ASK_LATER)
    row = handoff.handoff_type if handoff.handoff_type in policy.config.types else ANY_OTHER_TYPE
    return compare(case, verdict, row)


def judge_within(
    cases: Iterable[PolicyCase], policy: CasePolicy, seconds: float = SECONDS
) -> Iterator[tuple[PolicyCase, CaseResult]]:
    """Yield the first cases with their results, for about `seconds`, but at least one case."""
    end = time.monotonic() + seconds
    for case in cases:
        yield case, judge_case(case, policy)
        if time.monotonic() > end:
            return


def judge_stored(tenant: Tenant, cases: Iterable[PolicyCase], seconds: float = SECONDS) -> list[CaseResult]:
    """Test cases with the policies in force, store the results, and return them.

    The function stops after about `seconds`, and tests at least one case.
    """
    results = []
    for case, result in judge_within(cases, CasePolicy.of_tenant(tenant), seconds):
        case.result, case.tested_at = result.to_plain(), timezone.now()
        PolicyCase.objects.filter(tenant=tenant, pk=case.pk).update(result=case.result, tested_at=case.tested_at)
        results.append(result)
    return results
