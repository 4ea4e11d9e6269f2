"""Verification of a tenant's seals: the chain, its signatures, and the rows that it seals.

The verification reads seals and sealed rows in parts, and holds one part in memory at a time. Only the digests of all
erased rows and the ids of all policy versions stay in memory.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import OuterRef, Subquery
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.database_faults import is_unreadable
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State, Verdict
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.trust import seals
from handoffaudit.trust.models import Seal, SealKind, SealProgress
from handoffaudit.trust.signatures import (
    EVENT,
    POLICY,
    VERDICT,
    Sealed,
    WrongList,
    find_wrong_signature,
    hash_seal,
    id_of,
    is_lost_key,
    unpack,
)

# The verification names at most this many problems of a tenant.
MOST_PROBLEMS: Final = 50
# The number of ids that are compared with the seals at a time.
PART: Final = 20_000
# The kinds of sealed rows that a retention run removes, by the kind of data. The audit entries of the run have the kind
# of data as their target.
REMOVES: Final = {"handoffs": (EVENT, VERDICT)}


class _Enough(Exception):
    """The end of a verification that has found `MOST_PROBLEMS`."""


@dataclass(slots=True)
class Report:
    """The result for a tenant. `problems` are sentences that name the row; `notes` are not signs of a change."""

    entries: int = 0
    seals: int = 0
    rows: int = 0
    waiting: int = 0
    waiting_since: datetime | None = None
    removed: int = 0
    erased: int = 0
    broken: audit.Broken | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def is_intact(self) -> bool:
        return not self.problems

    def add(self, problem: str) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            self.problems.append("more problems follow")
            raise _Enough
        self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class _Removal:
    """A retention run, which removed the rows of `kinds` whose handoffs are older than the time `before`."""

    kinds: tuple[int, ...]
    before: datetime


def verify(tenant: Tenant, key: str | None, report: Report | None = None) -> Report:
    """Verify the audit log and the seals of a tenant. A caller that shows progress gives the empty `report` to fill.

    `key` is the expected public key: the last seal must be signed with this key, or must replace another key by this
    key. Without `key`, the report of a tenant with seals has a note that the key of the last seal was not compared.
    """
    entries: object = Tenant.objects.values_list("audit_number", flat=True).get(pk=tenant.pk)
    report = Report() if report is None else report
    report.entries = entries if isinstance(entries, int) else 0
    try:
        report.broken = audit.verify(tenant)
        if report.broken:
            report.add(f"audit entry {report.broken.number}: {report.broken.why}")
        # No signature covers `is_sample`, so a tenant with seals is verified even if it is marked as a sample.
        if not tenant.is_sample or Seal.objects.filter(tenant=tenant).exists():
            _verify_seals(tenant, key, report)
    except _Enough:
        pass
    except Exception as error:
        if not is_unreadable(error):
            raise
        report.problems.append("a stored value was changed and cannot be read, so the check ended early")
    return report


def _verify_seals(tenant: Tenant, key: str | None, report: Report) -> None:
    excuses = _Excuses.read(tenant)
    before: Seal | None = None
    current: str | None = None
    policies: set[int] = set()
    for seal in _read_seals(tenant, report):
        for problem in _verify_seal(seal, before, current):
            report.add(f"seal {seal.number}: {problem}")
        if is_lost_key(seal.facts()):
            report.notes.append(f"seal {seal.number} replaces a lost key: the old key has not signed it")
        _verify_anchor(tenant, seal, report)
        listed = _list_rows(seal, report)
        excuses = _verify_rows(seal, listed, excuses, report)
        policies |= {one.number for one in listed if one.kind == POLICY}
        before, current = seal, seal.current_key
        if current not in report.keys:
            report.keys.append(current)
        report.seals += 1
    if current is not None and key is None:
        report.notes.append(f"the seals are signed with the key {id_of(current)}, which was compared with nothing")
    elif current is not None and current != key:
        report.add(f"the last seal is signed with the key {id_of(current)}, not with {id_of(key or '')}")
    reached = max(before.reached if before else 0, _progress())
    _find_added_events(tenant, reached, report)
    _find_added_verdicts(tenant, reached, report)
    _find_added_policies(tenant, policies, before.last_policy if before else 0, report)
    _find_changed_states(tenant, report)
    report.waiting, report.waiting_since = seals.oldest_waiting(tenant)


def _read_seals(tenant: Tenant, report: Report) -> Iterator[Seal]:
    """Yield the seals of a tenant. A seal that cannot be read is a problem of the report."""
    stored, last = Seal.objects.filter(tenant=tenant).order_by("number"), 0
    while numbers := list(stored.filter(number__gt=last).values_list("number", flat=True)[:20]):
        for number in numbers:
            try:
                seal = stored.get(number=number)
                seal.facts()
            except Exception as error:
                if not is_unreadable(error):
                    raise
                report.add(f"seal {number}: it was changed, and cannot be read")
            else:
                yield seal
        last = numbers[-1]


def _progress() -> int:
    return SealProgress.objects.values_list("reached", flat=True).filter(pk=1).first() or 0


def _verify_seal(seal: Seal, before: Seal | None, key: str | None) -> Iterator[str]:
    if seal.number != (before.number + 1 if before else 1):
        yield "the seal before it is missing"
    elif seal.previous_hash != (before.seal_hash if before else ""):
        yield "it does not follow from the seal before it"
    facts = seal.facts()
    if hash_seal(facts) != seal.seal_hash or seal.key_id != id_of(seal.public_key):
        yield "it was changed after it was written"
    elif wrong := find_wrong_signature(facts, key):
        yield wrong


def _verify_anchor(tenant: Tenant, seal: Seal, report: Report) -> None:
    """Compare the newest audit entry at the time of the seal with the audit log of today."""
    if not seal.audit_number:
        return
    found = AuditEntry.objects.filter(tenant=tenant, number=seal.audit_number).values_list("entry_hash", flat=True)
    stored = found.first()
    if stored is None:
        report.add(f"audit entry {seal.audit_number}: it is missing, and seal {seal.number} names it")
    elif stored != seal.audit_hash:
        report.add(f"audit entry {seal.audit_number}: seal {seal.number} names another hash")


def _list_erased(tenant: Tenant) -> dict[tuple[int, int], bytes]:
    """Return the newest digest of each row that an erasure changed. `_verify_seal` checks the signatures."""
    found: dict[tuple[int, int], bytes] = {}
    erasures = Seal.objects.filter(tenant=tenant, kind=SealKind.ERASURE).order_by("number")
    for packed in erasures.values_list("rows", flat=True).iterator(chunk_size=20):
        with suppress(WrongList):
            found |= {(one.kind, one.number): one.digest for one in unpack(bytes(packed))}
    return found


@dataclass(frozen=True, slots=True)
class _Excuses:
    """The retention runs and the erasures of a tenant, which explain why rows differ from their seals.

    `erased` has the newest digest of each row that an erasure changed.
    """

    removals: Sequence[_Removal]
    erased: Mapping[tuple[int, int], bytes]

    @classmethod
    def read(cls, tenant: Tenant) -> "_Excuses":
        return cls(_list_removals(tenant), _list_erased(tenant))


def _list_rows(seal: Seal, report: Report) -> list[Sealed]:
    try:
        return list(unpack(bytes(seal.rows)))
    except WrongList:
        report.add(f"seal {seal.number}: its list of rows cannot be read")
        return []


def _verify_rows(seal: Seal, listed: Sequence[Sealed], excuses: _Excuses, report: Report) -> _Excuses:
    """Compare the sealed rows with the stored rows. Return the excuses, which may be read again."""
    stored = _read_rows(seal, listed)
    missing = {one.handoff for one in listed if (one.kind, one.number) not in stored}
    # A run first drops whole partitions of verdicts and documents. A hold or a longer term that is set meanwhile may
    # keep the handoffs. So a missing verdict counts as removed if the document is missing, too.
    present = {EVENT: _list_stored(Handoff, missing), VERDICT: _list_stored(HandoffBody, missing)}
    found = _compare(seal, listed, stored, present, excuses)
    if found.problems:
        # A retention run or an erasure may have begun after the excuses were read.
        excuses = _Excuses.read(seal.tenant)
        found = _compare(seal, listed, stored, present, excuses)
    report.rows += found.rows
    report.removed += found.removed
    report.erased += found.erased
    for problem in found.problems:
        report.add(problem)
    return excuses


def _read_rows(seal: Seal, listed: Sequence[Sealed]) -> dict[tuple[int, int], seals.Row]:
    """Return the stored rows of a seal's list. The digest of a row that cannot be read is empty."""
    try:
        return seals.read_rows(listed)
    except Exception as error:
        if not is_unreadable(error):
            raise
        if len(listed) == 1:
            one = listed[0]
            unread = Sealed(one.kind, one.number, one.handoff, b"")
            return {(one.kind, one.number): seals.Row(unread, seal.tenant_id, {})}
    half = len(listed) // 2
    return _read_rows(seal, listed[:half]) | _read_rows(seal, listed[half:])


def _compare(
    seal: Seal,
    listed: Sequence[Sealed],
    stored: Mapping[tuple[int, int], seals.Row],
    present: Mapping[int, set[int]],
    excuses: _Excuses,
) -> Report:
    """Return a report on the rows of one seal."""
    found = Report(rows=len(listed))
    for one in listed:
        row = stored.get((one.kind, one.number))
        is_covered = row is None and any(_covers(removal, one) for removal in excuses.removals)
        if is_covered and one.handoff not in present[one.kind]:
            found.removed += 1
        elif row is None:
            found.problems.append(f"{one}: it is missing, and seal {seal.number} has it")
        elif row.tenant == seal.tenant_id and row.sealed.digest == excuses.erased.get((one.kind, one.number)):
            found.erased += seal.kind == SealKind.ERASURE
        elif row.sealed != one or row.tenant != seal.tenant_id:
            what = "it, or the hash of the judged document," if one.kind == VERDICT else "it"
            found.problems.append(f"{one}: {what} was changed after seal {seal.number}")
    return found


def _list_removals(tenant: Tenant) -> list[_Removal]:
    """Return the retention runs in the audit log, which has an entry at the first batch and one at the end of a run."""
    actions = ("retention.begin", "retention.remove")
    found = AuditEntry.objects.filter(tenant=tenant, action__in=actions, target__in=list(REMOVES))
    return [
        _Removal(REMOVES[entry.target], datetime.fromisoformat(str(entry.detail["before"])))
        for entry in found.order_by("number")
        if entry.detail.get("before")
    ]


def _list_stored(model: type[Handoff | HandoffBody], handoffs: set[int]) -> set[int]:
    """Return those of the handoffs that have a row of the model."""
    ids, found = [uuid.UUID(int=number) for number in handoffs], set[int]()
    for start in range(0, len(ids), 500):
        stored = model._default_manager.filter(pk__in=ids[start : start + 500])  # noqa: SLF001 -- documented API
        found |= {pk.int for pk in stored.values_list("pk", flat=True)}
    return found


def _covers(removal: _Removal, sealed: Sealed) -> bool:
    """Return whether the retention run removes the row, by the time in the id of its handoff."""
    return sealed.kind in removal.kinds and sealed.handoff >> 80 < removal.before.timestamp() * 1000


def _find_added_events(tenant: Tenant, reached: int, report: Report) -> None:
    after = 0
    while True:
        found = seals.sealed_events().filter(tenant=tenant, id__gt=after, id__lte=reached).order_by("id")
        part = dict(found.values_list("id", "at")[:PART])
        if not part:
            return
        first, after = min(part), max(part)
        overlapping = Seal.objects.filter(tenant=tenant, first_event__lte=after, last_event__gte=first)
        for number in sorted(part.keys() - _numbers(overlapping, EVENT)):
            if not _is_recent(part[number]):
                report.add(f"event {number}: it is in no seal, although later events are")


def _find_added_verdicts(tenant: Tenant, reached: int, report: Report) -> None:
    after = uuid.UUID(int=0)
    while True:
        found = Verdict.objects.filter(tenant=tenant, id__gt=after).order_by("id")
        part = {pk: (handoff, at) for pk, handoff, at in found.values_list("id", "handoff_id", "validated_at")[:PART]}
        if not part:
            return
        first, after = min(part), max(part)
        overlapping = Seal.objects.filter(tenant=tenant, first_verdict__lte=after, last_verdict__gte=first)
        sealed = _numbers(overlapping, VERDICT)
        for pk in sorted(pk for pk in part if pk.int not in sealed):
            handoff, at = part[pk]
            # A verdict and its event are stored together, so a verdict waits for its seal while its event waits.
            waits = Event.objects.filter(handoff=handoff, id__gt=reached).exists()
            if not waits and not _is_recent(at):
                report.add(f"verdict {pk} of handoff {handoff}: it is in no seal, although later verdicts are")


def _find_added_policies(tenant: Tenant, sealed: set[int], last: int, report: Report) -> None:
    found = PolicyVersion.objects.filter(tenant=tenant, id__lte=last).order_by("id").values_list("id", flat=True)
    for number in found.iterator(chunk_size=1000):
        if number not in sealed:
            report.add(f"policy version {number}: it is in no seal, although later versions are")


def _find_changed_states(tenant: Tenant, report: Report) -> None:
    """Compare the state of each handoff, which no seal covers, with its newest event, which a seal covers."""
    newest = Event.objects.filter(handoff=OuterRef("pk")).order_by("-id").values("to_state")[:1]
    stored = Handoff.objects.filter(tenant=tenant).annotate(told=Subquery(newest)).order_by("pk")
    after = uuid.UUID(int=0)
    while part := list(stored.filter(pk__gt=after).values_list("pk", "state", "told")[:PART]):
        after = part[-1][0]
        for pk, state, told in part:
            # The start of judging has no event until the handoff is judged.
            if state != told and not {state, told} <= _WAITS:
                report.add(f"handoff {pk}: its state is {state}, and its newest event says {told or 'nothing'}")


_WAITS: Final = {State.RECEIVED, State.VALIDATING}


def _numbers(overlapping: Any, kind: int) -> set[int]:
    numbers: set[int] = set()
    for packed in overlapping.filter(kind=SealKind.ROWS).values_list("rows", flat=True).iterator(chunk_size=20):
        try:
            numbers |= {one.number for one in unpack(bytes(packed)) if one.kind == kind}
        except WrongList:
            continue
    return numbers


def _is_recent(at: datetime) -> bool:
    """Return whether a row may still get its seal, because its transaction ended late."""
    return abs(timezone.now() - at) < seals.LATE
