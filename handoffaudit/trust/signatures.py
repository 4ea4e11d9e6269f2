"""Ed25519 signatures, canonical bytes, and the packed list of the rows that a seal covers.

The module needs no database and no settings, so that checks work offline.
`docs/decisions/0072-seals.md` explains the choice of the algorithm and of the library.
"""

import base64
import hashlib
import os
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_FILE: Final = "seal-key"
VARIABLE: Final = "HANDOFFAUDIT_SEAL_KEY"
SIZE: Final = 32


class WrongKey(Exception):
    """The error for a key that cannot be read or made; the message says what to do."""


@dataclass(frozen=True, slots=True)
class SealKey:
    """A private key. `public` is the public key as base64, and `key_id` its name: the start of its SHA-256."""

    private: Ed25519PrivateKey

    @property
    def public(self) -> str:
        return base64.b64encode(self.private.public_key().public_bytes_raw()).decode()

    @property
    def key_id(self) -> str:
        return id_of(self.public)

    @property
    def secret(self) -> str:
        return base64.b64encode(self.private.private_bytes_raw()).decode()

    def sign(self, purpose: str, message: bytes) -> str:
        """Return the signature of the message as base64.

        The purpose is part of the signed bytes, so that a signature of one purpose is worthless for another.
        """
        return base64.b64encode(self.private.sign(_signed_bytes(purpose, message))).decode()


def is_valid(public: str, signature: str, purpose: str, message: bytes) -> bool:
    """Return whether the signature was made with the private key of `public` for this purpose and message."""
    try:
        Ed25519PublicKey.from_public_bytes(_decode(public)).verify(_decode(signature), _signed_bytes(purpose, message))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _decode(text: str) -> bytes:
    """Return the bytes of base64. Raise `ValueError` if encoding the bytes again gives a different text."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError
    return raw


def _signed_bytes(purpose: str, message: bytes) -> bytes:
    return b"handoffaudit " + purpose.encode() + b"\n" + message


def id_of(public: str) -> str:
    return hashlib.sha256(public.encode()).hexdigest()[:16]


def make_key() -> SealKey:
    return SealKey(Ed25519PrivateKey.generate())


def parse_key(text: str, where: str) -> SealKey:
    """Return the private key of a base64 text of 32 bytes. Raise `WrongKey` without repeating the text."""
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != SIZE:
        raise WrongKey(
            f"{where} is not a seal key: it must be 32 random bytes as base64. This command prints such a key:"
            " python3 -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())'"
        )
    return SealKey(Ed25519PrivateKey.from_private_bytes(raw))


def read_public_key(text: str) -> str:
    """Return a public key as base64 from its text, or from the file that the text names. Raise `WrongKey`."""
    path = Path(text)
    with suppress(OSError, ValueError):
        if path.is_file():
            with path.open(encoding="utf-8") as file:
                text = file.read(1000)
    text = text.strip()
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except ValueError:
        raise WrongKey(
            f"{text[:60]!r} is neither a public key nor a file with one: take it from handoffaudit seal-key show."
        ) from None
    return text


def is_set() -> bool:
    """Return whether the key comes from the environment. Otherwise, it comes from the data folder."""
    return bool(os.environ.get(VARIABLE))


def find_key(folder: Path) -> SealKey | None:
    """Return the key of `HANDOFFAUDIT_SEAL_KEY` or of the data folder, or None if there is none. Raise `WrongKey`."""
    if given := os.environ.get(VARIABLE):
        return parse_key(given, VARIABLE)
    path = folder / KEY_FILE
    try:
        # Bytes that are not text are not a key either, and `parse_key` says so.
        return parse_key(path.read_text("ascii", "replace"), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WrongKey(f"{path} can't be read ({error.strerror}).") from error


def load_key(folder: Path) -> SealKey:
    """Return the key, which is made in the data folder if there is none. Raise `WrongKey`."""
    if (found := find_key(folder)) is not None:
        return found
    path = folder / KEY_FILE
    draft = write_draft(folder, make_key())
    try:
        os.link(draft, path)
    except FileExistsError:
        # Another process started at the same moment and made the key.
        pass
    except OSError as error:
        raise WrongKey(f"{path} can't be made ({error.strerror}). Set {VARIABLE}.") from error
    finally:
        draft.unlink()
    return parse_key(path.read_text(), str(path))


def write_draft(folder: Path, key: SealKey) -> Path:
    """Write the key into a new file beside the key file, readable for its owner only, and return its path.

    Raise `WrongKey` if the file cannot be written.
    """
    draft = folder / f"{KEY_FILE}.{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key.secret + "\n")
    except OSError as error:
        raise WrongKey(f"{draft} can't be written ({error.strerror}): set {VARIABLE} instead.") from error
    return draft


def canonical(facts: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of an object: JSON without spaces, keys sorted.

    The values must not depend on the database: give times as text (`utc`), and numbers without fractions.
    """
    return orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)


def utc(moment: datetime) -> str:
    """Return the time in UTC with microseconds, which both databases store."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    """The error for bytes that are not a list of sealed rows."""


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
    """Return the hash of a seal. It covers the facts that `SEALED_FACTS` names, and no others."""
    return sha256(canonical({name: facts[name] for name in SEALED_FACTS}))


def find_wrong_signature(facts: dict[str, Any], key: str | None) -> str:
    """Return the fault of the key or the signatures of a seal, or an empty text.

    `key` is the public key that must have signed the seal, or None to allow any key. A seal that changes the key is
    also signed with the new key. If only the new key has signed it, the old key was lost.
    """
    message = facts["seal_hash"].encode()
    if key is not None and facts["public_key"] != key and not is_lost_key(facts):
        return "it is signed with another key than the seal before it"
    if not is_valid(facts["public_key"], facts["signature"], SEAL_PURPOSE, message):
        return "its signature is wrong"
    if facts["kind"] != "key" and (facts["new_key"] or facts["new_signature"]):
        return "it names a new key, but is not a change of key"
    if facts["kind"] == "key" and not is_valid(facts["new_key"], facts["new_signature"], SEAL_PURPOSE, message):
        return "the new key has not signed it"
    return ""


def is_lost_key(facts: dict[str, Any]) -> bool:
    """Return whether the seal replaces a lost key: the old key did not sign it."""
    return facts["kind"] == "key" and bool(facts["new_key"]) and facts["new_key"] == facts["public_key"]
