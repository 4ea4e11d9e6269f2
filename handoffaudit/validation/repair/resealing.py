"""What a document says of itself, made true again after a change: its token count, its payload's hash and size."""

from collections.abc import Iterator
from typing import Final

from handoffaudit.validation.canonical import compact, sha256_hex
from handoffaudit.validation.counting import estimate
from handoffaudit.validation.differing import Change, changed
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Document, integer
from handoffaudit.validation.layers.integrity import integrity_issues
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.repair.editing import placed

MOST_TOKENS: Final = 2000
_ABSENT = object()


def resealed(before: Document, after: Document, form: str) -> tuple[Document, tuple[Change, ...]]:
    """`after` with its figures recomputed, and what that changed. Nothing is recomputed where both are the same.

    A hash or a size that was wrong before stays: that the payload is not the one its sender sealed must not vanish with
    a repair.
    """
    if form not in BY_NAME or before is after:
        return after, ()
    changes = [*_seal_changes(before, after, form)]
    for change in changes:
        after = placed(after, change.location, change.after)
    counted = _recounted(after, form)
    if counted is not None:
        changes.append(counted)
        after = placed(after, counted.location, counted.after)
    return after, tuple(changes)


def _seal_changes(before: Document, after: Document, form: str) -> Iterator[Change]:
    was, now = BY_NAME[form].seal(before), BY_NAME[form].seal(after)
    if was is None or now is None or was.value is now.value:
        return
    wrong = {issue.code for issue in integrity_issues(was)}
    new, why = compact(now.value), "recomputed, since the payload changed"
    digest = f"sha256:{sha256_hex(new)}"
    if now.declared_hash not in (None, digest) and "integrity.payload_hash_mismatch" not in wrong:
        yield changed(now.hash_location, now.declared_hash, digest, why)
    if now.declared_size not in (None, len(new)) and "integrity.size_mismatch" not in wrong:
        yield changed(now.size_location, now.declared_size, len(new), why)


def _recounted(document: Document, form: str) -> Change | None:
    place = BY_NAME[form].PLACES.token_count
    declared = at(document, place, _ABSENT) if place else _ABSENT
    if place is None or integer(declared) is None:
        return None
    count = token_count(document, place)
    return changed(place, declared, count, "recounted (characters / 4)") if count != declared else None


def token_count(document: Document, place: Location) -> int:
    """The count that a document should declare at `place`: of its characters with the count in it."""
    count = MOST_TOKENS
    for _ in range(2):  # the count's own digits count
        count = min(round(estimate(compact(placed(document, place, count)).decode("utf-8", "replace"))), MOST_TOKENS)
    return count
