"""The packed list of sealed rows in a seal, and the canonical bytes of a seal. The module needs no database."""

import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.trust.signatures import canonical, is_valid, sha256

EVENT, VERDICT, POLICY = 1, 2, 3
NAMES: Final = {EVENT: "event", VERDICT: "verdict", POLICY: "policy version"}
KINDS: Final = {"event": EVENT, "verdict": VERDICT, "policy": POLICY}
# The kind, the id, the handoff and the SHA-256 of the canonical bytes.
_ENTRY: Final = struct.Struct(">B16s16s32s")

SEALED_FACTS: Final = (
    *("tenant", "number", "at", "kind", "rows", "first_event", "last_event", "first_verdict", "last_verdict"),
    *("last_policy", "audit_number", "audit_hash", "reached", "previous_hash", "public_key", "key_id", "new_key"),
)
SEAL_PURPOSE: Final = "seal"


class WrongList(Exception):
    """The error for bytes that are no list of sealed rows."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed row: its kind, its id and its handoff's id as whole numbers (0: none), and its digest."""

    kind: int
    number: int
    handoff: int
    digest: bytes

    def __str__(self) -> str:
        shown = uuid.UUID(int=self.number) if self.kind == VERDICT else self.number
        of = f" of handoff {uuid.UUID(int=self.handoff)}" if self.handoff else ""
        return f"{NAMES[self.kind]} {shown}{of}"


def pack(rows: Iterable[Sealed]) -> bytes:
    return b"".join(
        _ENTRY.pack(one.kind, one.number.to_bytes(16, "big"), one.handoff.to_bytes(16, "big"), one.digest)
        for one in rows
    )


def unpack(packed: bytes) -> Iterator[Sealed]:
    """Yield the rows of a packed list. Raise `WrongList`."""
    if len(packed) % _ENTRY.size:
        raise WrongList
    for kind, number, handoff, digest in _ENTRY.iter_unpack(packed):
        if kind not in NAMES:
            raise WrongList
        yield Sealed(kind, int.from_bytes(number, "big"), int.from_bytes(handoff, "big"), digest)


def hash_seal(facts: dict[str, Any]) -> str:
    """Return the hash of a seal, whose facts are the values of `SEALED_FACTS`."""
    return sha256(canonical({name: facts[name] for name in SEALED_FACTS}))


def find_wrong_signature(facts: dict[str, Any], key: str | None) -> str:
    """Return what is wrong with the key and the signatures of a seal, or an empty text.

    `key` is the public key that must have signed the seal, or None if any key may have. A seal that changes the key is
    also signed with the new key. If only the new key has signed it, the old key was lost.
    """
    message = facts["seal_hash"].encode()
    if key is not None and facts["public_key"] != key and not is_lost_key(facts):
        return "it is signed with another key than the seal before it"
    if not is_valid(facts["public_key"], facts["signature"], SEAL_PURPOSE, message):
        return "its signature is wrong"
    if facts["kind"] != "key" and (facts["new_key"] or facts["new_signature"]):
        return "it names a new key, and is no change of the key"
    if facts["kind"] == "key" and not is_valid(facts["new_key"], facts["new_signature"], SEAL_PURPOSE, message):
        return "the new key has not signed it"
    return ""


def is_lost_key(facts: dict[str, Any]) -> bool:
    """Return whether the seal replaces a lost key: the old key did not sign it."""
    return facts["kind"] == "key" and bool(facts["new_key"]) and facts["new_key"] == facts["public_key"]
