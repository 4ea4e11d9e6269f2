"""Is the payload the one that its sender hashed and measured?"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import orjson

from handoffaudit.validation.canonical import compact, python_compact, sha256_hex
from handoffaudit.validation.codes import make
from handoffaudit.validation.formats.base import Seal
from handoffaudit.validation.issues import Issue

_EXACT = 2.0**63


def integrity_issues(seal: Seal | None) -> Iterable[Issue]:
    """A value that was not kept digit by digit when it was read cannot be held against its hash, and is not."""
    if seal is None:
        return
    text = compact(seal.value)
    found = f"sha256:{sha256_hex(text)}"
    sizes = {len(text)}
    if found != seal.declared_hash and (seal.declared_hash is not None or seal.declared_size != len(text)):
        # the same numbers, as other languages spell them
        others = (python_compact(seal.value), _javascript_compact(seal.value))
        sizes.update(map(len, others))
        if seal.declared_hash is not None and not any(_is_of(seal.declared_hash, other) for other in others):
            if any(_lost_digits(number) for number in _numbers(seal.value)):
                return
            yield _hash_mismatch(seal, found)
    if seal.declared_size is not None and seal.declared_size not in sizes:
        yield _size_mismatch(seal, len(text))


def _is_of(declared: str, text: bytes) -> bool:
    return declared == f"sha256:{sha256_hex(text)}"


def _javascript_compact(value: Any) -> bytes:
    """`compact` with small numbers spelled as JavaScript does: 0.000001 where others write 1e-6."""
    try:
        return orjson.dumps(_with_spelled_numbers(value))
    except TypeError:  # what only other parsers let through
        return compact(value)


def _with_spelled_numbers(value: Any) -> Any:
    match value:
        case dict():
            return {key: _with_spelled_numbers(item) for key, item in value.items()}
        case list():
            return [_with_spelled_numbers(item) for item in value]
        case float() if _is_spelled_out(value):
            return orjson.Fragment(f"{Decimal(repr(value)):f}")
    return value


def _is_spelled_out(number: float) -> bool:
    return 1e-6 <= abs(number) < 1e-5


def _numbers(value: Any) -> Iterator[float]:
    stack = [value]
    while stack:
        match stack.pop():
            case dict() as fields:
                stack.extend(fields.values())
            case list() as items:
                stack.extend(items)
            case float() as number:
                yield number


def _lost_digits(number: float) -> bool:
    """Integers beyond 64 bits are read as floats."""
    return abs(number) >= _EXACT


def _hash_mismatch(seal: Seal, found: str) -> Issue:
    return make(
        "integrity.payload_hash_mismatch",
        location=seal.hash_location,
        message=f"The payload's hash is {_short(found)}, not {_short(str(seal.declared_hash))} as declared.",
        expected=found,
        actual=seal.declared_hash,
    )


def _short(digest: str) -> str:
    return f"{digest[:19]}…"


def _size_mismatch(seal: Seal, size: int) -> Issue:
    return make(
        "integrity.size_mismatch",
        location=seal.size_location,
        message=f"The payload is {size:,} bytes of compact JSON, not {seal.declared_size:,} as declared.",
        hint=f"Declare {size}, counted over the compact JSON in UTF-8, after the last change of the payload.",
        expected=size,
        actual=seal.declared_size,
    )
