"""Checkpoints: signed lines with the newest audit entry and seal of a tenant, written outside the database.

If somebody removes the newest rows or empties a table, the database contradicts the checkpoints (`handoffaudit
verify-log --checkpoint FILE`).
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Final

import orjson
import structlog
from django.conf import settings
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs.leases import NamedLease
from handoffaudit.handoffs.webhooks.client import BadAddress, Sender
from handoffaudit.trust import signatures
from handoffaudit.trust.models import Checkpoint, Seal, TrustLease
from handoffaudit.trust.signatures import SealKey, WrongKey, canonical, is_valid

log = structlog.get_logger(__name__)

LEASE: Final = NamedLease(TrustLease, "checkpoints")
PURPOSE: Final = "checkpoint"
STANDARD_OUTPUT: Final = "-"
# One run writes the checkpoints of at most this many tenants.
_MOST_TENANTS: Final = 500
# A longer line of a file is not a checkpoint.
LONGEST_LINE: Final = 2000
_FACTS: Final = {
    "checkpoint": int,
    "tenant": str,
    "at": str,
    "audit_number": int,
    "audit_hash": str,
    "seal_number": int,
    "seal_hash": str,
    "public_key": str,
}


@dataclass(frozen=True, slots=True)
class Line:
    """A checkpoint in a file, with the number of its line. `wrong` says why it proves nothing, or is empty."""

    number: int
    facts: dict[str, Any]
    wrong: str = ""


def write_due() -> None:
    """Write a checkpoint for each tenant without a checkpoint or with new audit entries or seals since the last one.

    One run writes the checkpoints of at most `_MOST_TENANTS` tenants. A tenant gets at most one checkpoint in
    `CHECKPOINT_SECONDS`, and a sample tenant gets none. Nothing is written while another process writes.
    """
    if not settings.CHECKPOINTS or (held_until := LEASE.acquire()) is None:
        return
    try:
        if tenants := list(_filter_due()[:_MOST_TENANTS]):
            key = signatures.load_key(settings.DATA_FOLDER)
            made = [(tenant, make_checkpoint(tenant, key)) for tenant in tenants]
            _record(made, was_written=_write([facts for _, facts in made]))
    except WrongKey as error:
        log.warning("no checkpoint is written, because the seal key cannot be used", error=str(error))
    finally:
        LEASE.release(held_until)


def _filter_due() -> "QuerySet[Tenant]":
    newest = Seal.objects.filter(tenant=OuterRef("pk")).order_by("-number").values("number")[:1]
    grown = ~Q(checkpoint__audit_number=Coalesce("audit_number", 0)) | ~Q(checkpoint__seal_number=Coalesce("newest", 0))
    now, pause = timezone.now(), timedelta(seconds=settings.CHECKPOINT_SECONDS)
    # A checkpoint with a time far in the future was written before the clock was set back.
    is_old = Q(checkpoint__at__lte=now - pause) | Q(checkpoint__at__gt=now + pause)
    due = Q(checkpoint=None) | (is_old & grown)
    return Tenant.objects.filter(is_sample=False).annotate(newest=Subquery(newest)).filter(due).order_by("pk")


def make_checkpoint(tenant: Tenant, key: SealKey) -> dict[str, Any]:
    """Return the signed facts of the tenant's newest audit entry and seal."""
    entry = AuditEntry.objects.filter(tenant=tenant).order_by("-number").values_list("number", "entry_hash").first()
    seal = Seal.objects.filter(tenant=tenant).order_by("-number").values_list("number", "seal_hash").first()
    facts = {
        "checkpoint": 1,
        "tenant": tenant.slug,
        "at": signatures.utc(timezone.now()),
        "audit_number": entry[0] if entry else 0,
        "audit_hash": entry[1] if entry else "",
        "seal_number": seal[0] if seal else 0,
        "seal_hash": seal[1] if seal else "",
        "public_key": key.public,
    }
    return facts | {"signature": key.sign(PURPOSE, canonical(facts))}


def _record(made: Iterable[tuple[Tenant, dict[str, Any]]], *, was_written: bool) -> None:
    """Record the checkpoints. After a failure, record only the time: the next try waits for `CHECKPOINT_SECONDS`."""
    for tenant, facts in made:
        columns: dict[str, Any] = {"at": timezone.now()}
        if was_written:
            columns |= {"audit_number": facts["audit_number"], "seal_number": facts["seal_number"]}
        # Until the first checkpoint is written, the row has a number that no audit entry and no seal has. This number
        # differs from the newest numbers, so the tenant becomes due again.
        Checkpoint.objects.update_or_create(
            tenant=tenant,
            defaults=columns,
            create_defaults={"audit_number": _NEVER, "seal_number": _NEVER, **columns},
        )


_NEVER: Final = 2**62


def _write(made: list[dict[str, Any]]) -> bool:
    """Write the checkpoints to each place of `HANDOFFAUDIT_CHECKPOINTS`. Return whether all places took them."""
    lines = b"".join(canonical(facts) + b"\n" for facts in made)
    taken = True
    for place in settings.CHECKPOINTS:
        try:
            _write_to(place, lines)
        except (OSError, BadAddress) as error:
            taken = False
            log.warning("checkpoints could not be written", place=place, error=str(error))
    return taken


def _write_to(place: str, lines: bytes) -> None:
    if place == STANDARD_OUTPUT:
        # A worker redirects `sys.stdout` to its log.
        stream: IO[Any] | None = sys.__stdout__
        if stream is None:
            raise OSError("there is no standard output")
        stream.write(lines.decode())
        stream.flush()
    elif place.startswith(("http://", "https://")):
        with Sender() as sender:
            answer = sender.post(place, lines, {"Content-Type": "application/x-ndjson"})
        if not answer.delivered:
            raise OSError(f"the receiver did not take them: {answer.error or answer.status}")
    else:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())


def read_lines(path: Path, keys: Iterable[str]) -> Iterator[Line]:
    """Yield the checkpoints in a file; other lines, such as those of a log, are skipped. Raise `OSError`.

    `keys` are the known public keys. If a checkpoint has wrong fields, an unknown key or a wrong
    signature, `Line.wrong` says so.
    """
    known = set(keys)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                while (rest := file.readline(1 << 16)) and not rest.endswith(b"\n"):
                    pass
                continue
            if (found := _read_line(line, number, known)) is not None:
                yield found


def _read_line(line: bytes, number: int, known: set[str]) -> Line | None:
    facts: Any = None
    with suppress(orjson.JSONDecodeError):
        # A log can have a name or a time before each line, as the output of `docker compose logs` has.
        facts = orjson.loads(line[max(line.find(b"{"), 0) :])
    if not isinstance(facts, dict) or "checkpoint" not in facts or "signature" not in facts:
        return None
    if facts.keys() != {*_FACTS, "signature"} or any(type(facts[name]) is not kind for name, kind in _FACTS.items()):
        return Line(number, {"tenant": str(facts.get("tenant"))}, "it has other fields than a checkpoint")
    return Line(number, facts, find_wrong_checkpoint(facts, known))


def find_wrong_checkpoint(facts: dict[str, Any], known: set[str]) -> str:
    """Return the problem with the signature of a checkpoint, or an empty text."""
    signed = canonical({name: facts[name] for name in _FACTS})
    if facts["public_key"] not in known:
        return "it is signed with an unknown key"
    if not is_valid(facts["public_key"], str(facts["signature"]), PURPOSE, signed):
        return "its signature is wrong"
    return ""


def compare(tenant: Tenant, line: Line) -> Iterator[str]:
    """Yield the contradictions between a checkpoint and the audit entries and seals that the tenant has now."""
    where = f"checkpoint in line {line.number}"
    if line.wrong:
        yield f"{where}: {line.wrong}"
        return
    facts = line.facts
    entries = AuditEntry.objects.filter(tenant=tenant, number=facts["audit_number"])
    seals = Seal.objects.filter(tenant=tenant, number=facts["seal_number"])
    stored = (
        ("audit entry", facts["audit_number"], facts["audit_hash"], entries.values_list("entry_hash", flat=True)),
        ("seal", facts["seal_number"], facts["seal_hash"], seals.values_list("seal_hash", flat=True)),
    )
    for name, number, digest, found in stored:
        if not number:
            continue
        of_today = found.first() if 0 < number < _NEVER else None
        if of_today is None:
            yield f"{name} {number}: it is missing, and the {where}, made at {facts['at']}, names it"
        elif of_today != digest:
            yield f"{name} {number}: the {where}, made at {facts['at']}, names another hash"
