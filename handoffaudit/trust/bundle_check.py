"""The check of an evidence bundle, offline: no database, no settings, and every read is bounded."""

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import orjson

from handoffaudit.trust.signatures import (
    KINDS,
    SEALED_FACTS,
    WrongList,
    canonical,
    find_wrong_signature,
    hash_seal,
    id_of,
    is_lost_key,
    is_valid,
    sha256,
    unpack,
)

FORMAT: Final = "handoffaudit-evidence"
PURPOSE: Final = "bundle"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"

# A bundle that the product makes stays below these bounds. They also bound the memory of a check.
MOST_FILES: Final = 20_000
MOST_HANDOFFS: Final = 10_000
MOST_ROWS: Final = 1_000_000
MOST_SEALS: Final = 100_000
LONGEST_READ: Final = 4 * 1024 * 1024
MOST_BYTES: Final = 300 * 1024 * 1024
LONGEST_LINE: Final = 16 * 1024 * 1024
MOST_PROBLEMS: Final = 50
_PIECE: Final = 1 << 20

# The parts that a bundle can leave out, by their names in its manifest.
LEFT_OUT: Final[Mapping[str, str]] = {
    "attempts": "older attempts of the handoff",
    "events": "later events of its handoffs",
    "verdicts": "later verdicts on its handoffs",
    "comments": "later comments",
    "audit_entries": "later entries of the audit log",
}


class WrongBundle(Exception):
    """The error for a file that is not a bundle, or that was changed; the message says what is wrong."""


@dataclass(slots=True)
class Result:
    """The result of a check. `problems` mean a change or another key; `notes` are for the reader to judge."""

    manifest: dict[str, Any]
    files: int = 0
    sealed: int = 0
    seals: int = 0
    entries: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def left_out(self) -> list[str]:
        """Return in words what the bundle says it left out, because it reached a bound."""
        return describe_left_out(self.manifest.get("left_out") or {})

    def add(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


def describe_left_out(left_out: Mapping[str, int]) -> list[str]:
    return [f"{number:,} {LEFT_OUT.get(name, name)}" for name, number in left_out.items()]


class _BoundedReader(io.BufferedReader):
    """A file whose reads raise `WrongBundle` beyond `LONGEST_READ` bytes.

    `zipfile` reads the list of the files in a ZIP file in one call, however long the list is.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = LONGEST_READ + 1 if size is None or size < 0 else size
        found = super().read(min(wanted, LONGEST_READ + 1))
        if len(found) > LONGEST_READ:
            raise WrongBundle(f"The list of the files in the bundle has more than {LONGEST_READ:,} bytes.")
        return found


def check(path: Path, key: str | None) -> Result:
    """Check a bundle. With `key`, a manifest that is signed with another key is a problem of the result.

    Raise `WrongBundle` for a file that cannot be read, is not a bundle, or has a manifest with a wrong signature.
    """
    try:
        with _BoundedReader(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            return _check(archive, key)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise WrongBundle(f"The file cannot be read as a bundle: {error}.") from error
    except OSError as error:
        raise WrongBundle(f"The file cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        # The decompressors of the standard library have errors of their own, such as `zlib.error`.
        if type(error).__module__ in ("zlib", "lzma", "_lzma"):
            raise WrongBundle("The file is damaged.") from error
        raise


def _check(archive: zipfile.ZipFile, key: str | None) -> Result:
    names = archive.namelist()
    if len(names) > MOST_FILES or len(set(names)) != len(names):
        raise WrongBundle("The file has too many entries, or two of the same name.")
    if MANIFEST not in names or SIGNATURE not in names:
        raise WrongBundle("The file has no signed manifest: it is not a bundle, or its download was interrupted.")
    raw = _read_small(archive, MANIFEST, LONGEST_READ)
    manifest = _parse_manifest(raw)
    signature = _read_small(archive, SIGNATURE, 200).decode("ascii", "replace").strip()
    if not is_valid(manifest["public_key"], signature, PURPOSE, raw):
        raise WrongBundle("The signature of the manifest is wrong.")
    result = Result(manifest)
    if key is None:
        shown = id_of(manifest["public_key"])
        result.notes.append(f"the key {shown} comes from the bundle and was compared with nothing: give --key")
    elif key != manifest["public_key"]:
        result.add(f"the manifest is signed with the key {id_of(manifest['public_key'])}, not with {id_of(key)}")
    _check_files(archive, manifest, names, result)
    if not result.problems:
        _check_content(archive, manifest, result)
    return result


def _parse_manifest(raw: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        found = None
    texts = ("format", "tenant", "public_key", "made_at", "made_by")
    if (
        not isinstance(found, dict)
        or any(not isinstance(found.get(name), str) for name in texts)
        or found["format"] != FORMAT
        or found.get("version") != 1
        or not isinstance(found.get("subject"), dict)
        or not isinstance(found.get("files"), list)
        or not _is_left_out(found.get("left_out", {}))
    ):
        raise WrongBundle("The manifest is not one of an evidence bundle of version 1.")
    for one in found["files"]:
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("path"), str)
            or not isinstance(one.get("sha256"), str)
            or not isinstance(one.get("size"), int)
        ):
            raise WrongBundle("The manifest lists a file without its path, digest or size.")
    return found


def _is_left_out(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(number, int) for number in found.values())


def _read_small(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise WrongBundle(f"{name} has more than {most:,} bytes.")
    return content


def _check_files(archive: zipfile.ZipFile, manifest: dict[str, Any], names: list[str], result: Result) -> None:
    listed = {one["path"]: one for one in manifest["files"]}
    for name in sorted(set(names) - set(listed) - {MANIFEST, SIGNATURE}):
        result.add(f"{name}: it is not in the manifest")
    left = MOST_BYTES
    for name, facts in listed.items():
        if name not in names:
            result.add(f"{name}: it is missing")
            continue
        digest, size = hashlib.sha256(), 0
        with archive.open(name) as file:
            # A file that unpacks to more than the manifest says is not read to its end.
            while size <= facts["size"] and (piece := file.read(_PIECE)):
                digest.update(piece)
                size += len(piece)
        left -= size
        if left < 0:
            raise WrongBundle(f"The files have more than {MOST_BYTES:,} bytes.")
        if size != facts["size"] or digest.hexdigest() != facts["sha256"]:
            result.add(f"{name}: it was changed")
        result.files += 1


def _check_content(archive: zipfile.ZipFile, manifest: dict[str, Any], result: Result) -> None:
    """Check the seals, the sealed rows and the audit log, which have signatures and hashes of their own."""
    names = set(archive.namelist())
    if not {"seals.jsonl", "rows.jsonl", "checkpoint.json"} <= names:
        result.add("seals.jsonl, rows.jsonl or checkpoint.json is missing")
        return
    digests = dict.fromkeys((_key_of(facts) for facts, _ in _read_lines(archive, "rows.jsonl", MOST_ROWS)), b"")
    seals = list(_read_seals(archive, digests, result))
    _check_keys(seals, manifest["public_key"], result)
    unsealed, hashes = 0, {str(one.get("id")): str(one.get("content_hash")) for one, _ in _read_handoffs(archive)}
    for facts, line in _read_lines(archive, "rows.jsonl", MOST_ROWS):
        named = facts.get("handoff__content_hash")
        if named is not None and hashes.get(str(facts.get("handoff_id"))) != named:
            result.add(f"verdict {facts.get('id')}: handoffs.jsonl has another hash of the document")
        kind, _ = key = _key_of(facts)
        if not digests[key]:
            unsealed += kind != 1 or facts.get("to_state") not in ("received", "validating")
        elif digests[key] != hashlib.sha256(line).digest():
            result.add(f"{facts.get('row')} {facts.get('id')}: it differs from its seal")
        else:
            result.sealed += 1
    if unsealed:
        result.notes.append(f"{unsealed:,} events, verdicts or policies had no seal yet when the bundle was made")
    if "audit.jsonl" in names:
        _check_audit(archive, result)
    else:
        result.notes.append("the bundle has no entries of the audit log")
    _check_checkpoint(archive, manifest, result)


def _key_of(facts: dict[str, Any]) -> tuple[int, str]:
    """Return the kind and the id by which a seal lists a row."""
    return KINDS.get(str(facts.get("row")), 0), str(facts.get("id"))[:40].replace("-", "")


def _read_seals(
    archive: zipfile.ZipFile, digests: dict[tuple[int, str], bytes], result: Result
) -> Iterator[dict[str, Any]]:
    """Check each seal. If the seal is intact, yield the facts that `_trust_keys` needs.

    Also write the digests of the sealed rows into `digests`. A defect becomes a problem of `result`.
    """
    for facts, _ in _read_lines(archive, "seals.jsonl", MOST_SEALS):
        result.seals += 1
        name = f"seal {facts.get('number')}"
        needed = (*SEALED_FACTS, "seal_hash", "signature", "new_signature", "list")
        if any(one not in facts for one in needed):
            result.add(f"{name}: a field is missing")
            continue
        if type(facts["number"]) is not int:
            result.add(f"{name}: its number is not a whole number")
            continue
        try:
            packed = base64.b64decode(str(facts["list"]), validate=True)
            listed = list(unpack(packed))
        except (ValueError, WrongList):
            result.add(f"{name}: its list of rows cannot be read")
            continue
        if facts["rows"] != sha256(packed) or hash_seal(facts) != facts["seal_hash"]:
            result.add(f"{name}: it was changed")
        elif wrong := find_wrong_signature(facts, None):
            result.add(f"{name}: {wrong}")
        else:
            for one in listed:
                number = f"{one.number:032x}" if one.kind == KINDS["verdict"] else str(one.number)
                if (one.kind, number) in digests:
                    digests[one.kind, number] = one.digest
            yield {name: facts[name] for name in ("number", "kind", "public_key", "new_key")}


def _check_keys(seals: list[dict[str, Any]], newest: str, result: Result) -> None:
    """Check that signed changes lead from the key of each seal to the newest key.

    No signed change leads on from a lost key. So the seals before a loss cause only a note, like the loss itself.
    """
    trusted = _trust_keys(seals, newest)
    lost = max((one["number"] for one in seals if is_lost_key(one) and one["public_key"] in trusted), default=0)
    before = 0
    for one in seals:
        if one["public_key"] not in trusted and one["number"] < lost:
            before += 1
        elif one["public_key"] not in trusted:
            result.add(f"seal {one['number']}: no chain of keys leads from its key to the key of the bundle")
    if lost:
        result.notes.append(f"seal {lost} replaces a lost key: the old key has not signed it")
    if before:
        result.notes.append(f"seals from before the loss, for whose keys only this bundle vouches: {before:,}")


def _trust_keys(seals: list[dict[str, Any]], newest: str) -> set[str]:
    """Return the keys that lead to the newest key by signed changes."""
    trusted, grew = {newest}, True
    while grew:
        found = {one["public_key"] for one in seals if one["kind"] == "key" and one["new_key"] in trusted}
        grew = not found <= trusted
        trusted |= found
    return trusted


def _read_handoffs(archive: zipfile.ZipFile) -> Iterator[tuple[dict[str, Any], bytes]]:
    return _read_lines(archive, "handoffs.jsonl", MOST_HANDOFFS) if "handoffs.jsonl" in archive.namelist() else iter(())


def _check_audit(archive: zipfile.ZipFile, result: Result) -> None:
    previous: str | None = None
    for facts, _ in _read_lines(archive, "audit.jsonl", MOST_ROWS):
        result.entries += 1
        told = f"{facts.get('previous_hash')}\n{facts.get('canonical')}".encode("utf-8", "surrogatepass")
        if hashlib.sha256(told).hexdigest() != facts.get("entry_hash"):
            result.add(f"audit.jsonl, line {result.entries}: the entry differs from its hash")
        elif previous is not None and facts.get("previous_hash") != previous:
            result.add(f"audit.jsonl, line {result.entries}: the entry does not follow from the entry before it")
        previous = str(facts.get("entry_hash"))


def _check_checkpoint(archive: zipfile.ZipFile, manifest: dict[str, Any], result: Result) -> None:
    try:
        facts = orjson.loads(_read_small(archive, "checkpoint.json", 10_000))
        signature = str(facts.pop("signature"))
    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError):
        result.add("checkpoint.json cannot be read")
        return
    if not is_valid(manifest["public_key"], signature, "checkpoint", canonical(facts)):
        result.add("checkpoint.json: its signature is wrong")


def _read_lines(archive: zipfile.ZipFile, name: str, most: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the object in each line of a file, and the bytes of the line. Raise `WrongBundle`."""
    with archive.open(name) as file:
        lines: IO[bytes] = file
        while line := lines.readline(LONGEST_LINE):
            if (most := most - 1) < 0:
                raise WrongBundle(f"{name} has too many lines.")
            content = line.removesuffix(b"\n")
            try:
                facts = orjson.loads(content)
            except orjson.JSONDecodeError as error:
                raise WrongBundle(f"{name} has a line that is not JSON.") from error
            if not isinstance(facts, dict):
                raise WrongBundle(f"{name} has a line that is not an object.")
            yield facts, content
