"""Evidence bundles: a signed ZIP file about a handoff, a trace or a period, written while it is sent.

`docs/evidence-bundle.md` describes the files inside. `trust/bundle_check.py` checks a bundle without a database.
"""

import base64
import hashlib
import io
import time
import uuid
import zipfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

import orjson
from django.db.models import Min, Model, QuerySet
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs import attempts, partitions, queries
from handoffaudit.handoffs.filters import first_id_at, is_of_trace
from handoffaudit.handoffs.models import Approval, Comment, Event, Handoff, HandoffBody, RemovedDocument, Verdict
from handoffaudit.handoffs.periods import window_of
from handoffaudit.policy.kinds import KINDS
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.trust import bundle_summary, checkpoints, seals
from handoffaudit.trust.bundle_check import FORMAT, MANIFEST, PURPOSE, SIGNATURE
from handoffaudit.trust.models import Seal, SealKind
from handoffaudit.trust.signatures import EVENT, VERDICT, SealKey, canonical, utc

# The bounds of a bundle. A bundle of this size takes some seconds; a larger one would occupy a thread for minutes.
MOST_HANDOFFS: Final = 1000
MOST_BYTES: Final = 256 * 1024 * 1024
MOST_SECONDS: Final = 120.0
MOST_ENTRIES: Final = 5000
MOST_PER_HANDOFF: Final = 500
_PART: Final = 50
_SEALS_AT_ONCE: Final = 20

_Row = TypeVar("_Row", bound=Model)


class TooLarge(Exception):
    """The error for a bundle beyond the bounds; the message says what to choose instead."""


class NothingFound(Exception):
    """The error for a bundle about no handoff."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The handoffs of a bundle: `kind` is handoff, trace or period, and `name` says which.

    `left_out` counts the rows beyond the bounds, by the names in `bundle_check.LEFT_OUT`.
    """

    tenant: Tenant
    kind: str
    name: str
    handoffs: Sequence[Handoff]
    left_out: Counter[str] = field(default_factory=Counter)

    def take(self, what: str, rows: "QuerySet[_Row]", most: int) -> "QuerySet[_Row]":
        """Return the first rows of a query, and count the others as left out."""
        if (more := rows.count() - most) > 0:
            self.left_out[what] += more
        return rows[:most]


def find_subject(tenant: Tenant, asked: Mapping[str, str]) -> Subject:
    """Return the subject that `handoff` or `trace` names, or else the period that the other keys name.

    `period`, `since` and `until` name a period of whole hours. Raise `FilterError` for a period that cannot be read,
    `Handoff.DoesNotExist`, `NothingFound` or `TooLarge`.
    """
    if asked.get("handoff"):
        return about_handoff(tenant, asked["handoff"])
    if asked.get("trace"):
        return about_trace(tenant, asked["trace"])
    window = window_of(asked, timezone.now())
    return about_period(tenant, window.since, window.until)


def about_handoff(tenant: Tenant, reference: str) -> Subject:
    """Return a handoff with the newest other attempts of its lineage. Raise `Handoff.DoesNotExist` or `TooLarge`."""
    handoff = queries.get(tenant, reference)
    found = attempts.list_attempts(handoff, MOST_PER_HANDOFF)
    if handoff.pk not in {one.pk for one in found}:
        found = [handoff, *found[1 - MOST_PER_HANDOFF :]]
    left_out = Counter({"attempts": attempts.count_attempts(handoff) - len(found)})
    return _check_bounds(Subject(tenant, "handoff", str(handoff.pk), found, +left_out))


def about_trace(tenant: Tenant, trace_id: str) -> Subject:
    """Return the handoffs of a trace. Raise `NothingFound` or `TooLarge`."""
    known = bool(trace_id) and "\x00" not in trace_id
    found = queries.of_tenant(tenant).filter(is_of_trace(trace_id)).order_by("id") if known else Handoff.objects.none()
    return _check_bounds(Subject(tenant, "trace", trace_id, list(found[: MOST_HANDOFFS + 1])))


def about_period(tenant: Tenant, since: datetime, until: datetime) -> Subject:
    """Return the handoffs with a time (`Handoff.at`) from `since` to `until`, which is not included.

    Raise `NothingFound` or `TooLarge`.
    """
    found = queries.of_tenant(tenant).filter(id__gte=first_id_at(since), id__lt=first_id_at(until)).order_by("id")
    return _check_bounds(Subject(tenant, "period", f"{utc(since)} to {utc(until)}", list(found[: MOST_HANDOFFS + 1])))


def _check_bounds(subject: Subject) -> Subject:
    if not subject.handoffs:
        raise NothingFound(f"There is no handoff in this {subject.kind}.")
    if len(subject.handoffs) > MOST_HANDOFFS:
        raise TooLarge(
            f"The {subject.kind} has more than {MOST_HANDOFFS:,} handoffs, the limit of a bundle: choose a shorter"
            " period, single traces or single handoffs."
        )
    stored = sum(one.size_bytes for one in subject.handoffs)
    if stored > MOST_BYTES // 4:
        raise TooLarge(
            f"The documents have {stored:,} bytes, over the limit of {MOST_BYTES // 4:,}: choose a shorter"
            " period or single handoffs."
        )
    return subject


class _Chunks(io.RawIOBase):
    """A file that only grows. `take` returns what was written since the last call."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any, /) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


@dataclass(slots=True)
class _Writer:
    """The ZIP file while it is made, with the entries of its manifest."""

    key: SealKey
    chunks: _Chunks = field(default_factory=_Chunks)
    files: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)
    archive: zipfile.ZipFile = field(init=False)

    def __post_init__(self) -> None:
        self.archive = zipfile.ZipFile(self.chunks, "w", zipfile.ZIP_DEFLATED)

    def add(self, path: str, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Write a file of these parts, and yield the bytes of the archive that are ready. Raise `TooLarge`."""
        digest, size = hashlib.sha256(), 0
        with self.archive.open(path, "w") as file:
            for part in parts:
                digest.update(part)
                size += len(part)
                file.write(part)
                if self.size + size > MOST_BYTES or time.monotonic() > self.until:
                    raise TooLarge("The bundle takes too many bytes or too long: choose a shorter period.")
                yield self.chunks.take()
        self.size += size
        self.files.append({"path": path, "sha256": digest.hexdigest(), "size": size})
        yield self.chunks.take()

    def finish(self, facts: dict[str, Any]) -> Iterator[bytes]:
        manifest = canonical(facts | {"files": self.files})
        self.archive.writestr(MANIFEST, manifest)
        self.archive.writestr(SIGNATURE, self.key.sign(PURPOSE, manifest) + "\n")
        self.archive.close()
        yield self.chunks.take()


def build(subject: Subject, key: SealKey, *, by: str, with_audit: bool) -> Iterator[bytes]:
    """Yield the bytes of the bundle. The manifest and its signature come last, so an interrupted bundle is never valid.

    `by` is the person or key that asked for the bundle. Without `with_audit`, the bundle has no entries of the audit
    log. Raise `TooLarge` if the bundle grows beyond the bounds after all.
    """
    writer = _Writer(key)
    tenant, handoffs = subject.tenant, subject.handoffs
    pks = [one.pk for one in handoffs]
    yield from writer.add("checkpoint.json", [canonical(checkpoints.make_checkpoint(tenant, key))])
    yield from writer.add("handoffs.jsonl", _handoff_lines(handoffs))
    for handoff in handoffs:
        for name, content in _documents(handoff):
            yield from writer.add(f"documents/{handoff.pk}/{name}", [content])
    sealed = _SealedRows(subject)
    yield from writer.add("rows.jsonl", sealed.lines(pks))
    yield from writer.add("seals.jsonl", _seal_lines(tenant, sealed))
    yield from writer.add("policies-as-shipped.jsonl", sealed.shipped_lines())
    yield from writer.add("notes.jsonl", _note_lines(subject, pks))
    if with_audit:
        yield from writer.add("audit.jsonl", _audit_lines(subject))
    facts = {
        "format": FORMAT,
        "version": 1,
        "tenant": tenant.slug,
        "tenant_id": tenant.pk,
        "subject": {"kind": subject.kind, "name": subject.name, "handoffs": len(handoffs)},
        "left_out": dict(subject.left_out),
        "made_at": utc(timezone.now()),
        "made_by": by,
        "with_audit": with_audit,
        "public_key": key.public,
        "key_id": key.key_id,
    }
    yield from writer.add("summary.html", bundle_summary.render(facts, handoffs, sealed.summary))
    yield from writer.finish(facts)


def _line(facts: dict[str, Any]) -> bytes:
    return canonical(facts) + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc(value)
    return str(value) if isinstance(value, uuid.UUID) else value


def _handoff_lines(handoffs: Sequence[Handoff]) -> Iterator[bytes]:
    pks, tenant = [one.pk for one in handoffs], handoffs[0].tenant_id
    approvals = {one.pk: one for one in Approval.objects.filter(handoff__in=pks)}
    removals = {one.pk: one for one in RemovedDocument.objects.filter(handoff__in=pks, tenant=tenant)}
    for handoff in handoffs:
        facts = {
            name: _plain(getattr(handoff, name))
            for name in (
                *("id", "handoff_id", "format", "handoff_type", "source_agent_id", "target_agent_id", "trace_id"),
                *("parent_handoff_id", "retry_of", "lineage", "attempt", "repaired", "state", "received_at"),
                *("judged_at", "sent_at", "size_bytes", "content_hash", "data_hash", "verdict", "codes"),
            )
        }
        if (removed := removals.get(handoff.pk)) is not None:
            facts["document_removed"] = {"at": utc(removed.at), "kept_days": removed.days, "sha256": removed.sha256}
        if (approval := approvals.get(handoff.pk)) is not None:
            facts["approval"] = {
                name: _plain(getattr(approval, name))
                for name in ("document_hash", "policy_versions", "expires_at", "used_at", "used_by")
            }
        yield _line(facts)


def _documents(handoff: Handoff) -> Iterator[tuple[str, bytes]]:
    body = HandoffBody.objects.filter(pk=handoff.pk, handoff__tenant=handoff.tenant_id).first()
    for name in ("original", "context", "evidence", "lifted"):
        content = getattr(body, name) if body is not None else None
        if content is not None:
            yield name, bytes(content)


@dataclass(slots=True)
class _SealedRows:
    """The rows of a bundle: events, verdicts, and the policy versions that the verdicts name.

    `events`, `verdicts` and `policies` are the ids of the rows, by which the bundle finds their seals. `summary`
    collects facts for people.
    """

    subject: Subject
    events: list[int] = field(default_factory=list)
    verdicts: list[uuid.UUID] = field(default_factory=list)
    policies: list[int] = field(default_factory=list)
    named: set[tuple[str, int]] = field(default_factory=set)
    summary: bundle_summary.Summary = field(default_factory=bundle_summary.Summary)

    def lines(self, pks: Sequence[uuid.UUID]) -> Iterator[bytes]:
        tenant, most = self.subject.tenant, _PART * MOST_PER_HANDOFF
        for start in range(0, len(pks), _PART):
            part = pks[start : start + _PART]
            events = Event.objects.filter(tenant=tenant, handoff__in=part).order_by("id")
            for row in seals.read_events(self.subject.take("events", events, most)):
                self.events.append(row.sealed.number)
                self.summary.add_event(row.facts)
                yield _line(row.facts)
            made = partitions.filter_made_between(min(part), None)
            verdicts = Verdict.objects.filter(made, tenant=tenant, handoff__in=part).order_by("id")
            for row in seals.read_verdicts(self.subject.take("verdicts", verdicts, most)):
                self.verdicts.append(uuid.UUID(int=row.sealed.number))
                content = orjson.loads(row.facts["content"])
                self.named |= {(kind, number) for kind, number in content.get("policy_versions", {}).items()}
                self.summary.add_verdict(row.facts, content)
                yield _line(row.facts)
        for kind, number in sorted(self.named):
            found = PolicyVersion.objects.filter(tenant=tenant, kind=kind, number=number)
            for row in seals.read_policies(found):
                self.policies.append(row.sealed.number)
                self.summary.policies.append(row.facts)
                yield _line(row.facts)

    def shipped_lines(self) -> Iterator[bytes]:
        """Yield the default policies that were in force. The product ships them, so no row of the database has them."""
        for kind, number in sorted(self.named):
            if number == 0 and kind in Kind.values:
                versions = KINDS[Kind(kind)]
                yield orjson.dumps({"kind": kind, "number": 0, "content": versions.to_plain(versions.shipped)}) + b"\n"


def _seal_lines(tenant: Tenant, sealed: _SealedRows) -> Iterator[bytes]:
    """Yield the seals that cover the rows, and the seals that changed the key, which link all keys to the newest."""
    numbers = set(Seal.objects.filter(tenant=tenant, kind=SealKind.KEY).values_list("number", flat=True))
    numbers |= _find_seals(tenant, EVENT, sorted(sealed.events))
    numbers |= _find_seals(tenant, VERDICT, sorted(sealed.verdicts))
    for one in sealed.policies:
        having = Seal.objects.filter(tenant=tenant, last_policy__gte=one).aggregate(first=Min("number"))["first"]
        numbers |= {having} if having else set()
    ordered = sorted(numbers)
    # A server-side cursor would end when a download gives its connection back between two parts.
    for start in range(0, len(ordered), _SEALS_AT_ONCE):
        part = ordered[start : start + _SEALS_AT_ONCE]
        for seal in Seal.objects.filter(tenant=tenant, number__in=part).order_by("number"):
            yield _line(seal.facts() | {"list": base64.b64encode(bytes(seal.rows)).decode()})


def _find_seals(tenant: Tenant, kind: int, wanted: Sequence[Any]) -> set[int]:
    """Return the numbers of the seals whose range of ids contains one of the wanted ids."""
    if not wanted:
        return set()
    first, last = ("first_event", "last_event") if kind == EVENT else ("first_verdict", "last_verdict")
    ranges = {f"{first}__lte": wanted[-1], f"{last}__gte": wanted[0]}
    found = Seal.objects.filter(tenant=tenant, **ranges).exclude(kind=SealKind.KEY).order_by("number")
    numbers = set()
    for number, low, high in found.values_list("number", first, last).iterator(chunk_size=2000):
        at = bisect_left(wanted, low)
        if at < len(wanted) and wanted[at] <= high:
            numbers.add(number)
    return numbers


def _note_lines(subject: Subject, pks: Sequence[uuid.UUID]) -> Iterator[bytes]:
    """Yield the comments on the handoffs. People can change their comments, so comments are not sealed."""
    found = Comment.objects.filter(tenant=subject.tenant, handoff__in=list(pks)).order_by("id")
    for one in subject.take("comments", found, MOST_ENTRIES):
        names = ("id", "handoff_id", "actor_kind", "actor", "text", "at", "edited_at", "removed_at")
        yield _line({name: _plain(getattr(one, name)) for name in names})


def _audit_lines(subject: Subject) -> Iterator[bytes]:
    """Yield the entries of the audit log from the first handoff to now, without gaps, at most `MOST_ENTRIES`."""
    since = min(one.received_at for one in subject.handoffs)
    entries = AuditEntry.objects.filter(tenant=subject.tenant).order_by("number")
    first = entries.filter(at__gte=since).values_list("number", flat=True).first()
    # If a clock was set back, later entries may have earlier times.
    following = entries.filter(number__gte=first) if first is not None else entries.none()
    for entry in subject.take("audit_entries", following, MOST_ENTRIES):
        text = audit.canonical_entry(entry).decode()
        yield _line({"canonical": text, "previous_hash": entry.previous_hash, "entry_hash": entry.entry_hash})


def file_name(subject: Subject) -> str:
    safe = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in subject.name)[:60].strip("-")
    return f"evidence-{subject.tenant.slug}-{subject.kind}-{safe or 'x'}.zip"
