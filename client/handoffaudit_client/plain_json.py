"""Plain JSON of any Python value: models, dataclasses, messages, bytes, dates and enums."""

from __future__ import annotations

import json
import math
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The server accepts documents of at most 64 levels; the submission around a value takes a few of them.
DEEPEST = 58

# A value with more parts is cut: `Client.send` converts the value before it returns, and must not take long.
_MOST_PARTS = 100_000

_LONGEST_TEXT = 1024 * 1024

# A file in base64, such as an image: no LLM reads it as text, and it exceeds every token budget.
_LONGEST_FILE = 4_096
_FILE = re.compile(rf"(?<![\w+/-])[A-Za-z0-9+/_-]{{{_LONGEST_FILE},}}={{0,2}}")

# The server reads longer numbers as floating point, or not at all.
_MOST_BITS = 64

# Longer numbers become hexadecimal texts: by default, Python writes at most 4,300 decimal digits.
_MOST_DECIMAL_BITS = 4_096

# Cut longer texts, lists and objects to the first of these lengths, then to the next, until the value fits.
_LENGTHS = (65_536, 16_384, 4_096, 1_024, 256, 64, 16)

_encoder = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def encode(plain: Any) -> str:
    """Return the JSON of a value that `to_plain` returned."""
    return _encoder.encode(plain)


def to_bytes(text: str) -> bytes:
    """Return the text in UTF-8. A lone surrogate, which has no bytes in UTF-8, becomes a question mark."""
    return text.encode("utf-8", "replace")


def to_plain(value: Any) -> Any:
    """Return the value as dicts with text keys, lists, texts, numbers, booleans and None.

    Never raises because of the value. A cycle, a part that is nested too deep and a part beyond the limits become texts
    that say so. A part that cannot be read becomes its `repr`, or the name of its type.
    """
    return _Converter().convert(value, 0)


def _mark(reason: str) -> str:
    return f"[cut: {reason}]"


class _Converter:
    def __init__(self) -> None:
        # The numbers of parts and characters that this conversion may still read.
        self._left = _MOST_PARTS
        self._characters = 4 * _LONGEST_TEXT
        self._path: set[int] = set()

    def convert(self, value: Any, depth: int) -> Any:  # noqa: PLR0911 (one for each kind of value)
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is int:
            return _whole_number(value)
        if value is None or kind is bool:
            return value
        if kind is float:
            return value if math.isfinite(value) else str(value)
        self._left -= 1
        if self._left < 0:
            return _mark("the value has too many parts")
        if depth >= DEEPEST:
            return _mark(f"nested more than {DEEPEST} levels deep")
        if id(value) in self._path:
            return _mark("refers to itself")
        self._path.add(id(value))
        try:
            return self._container(value, kind, depth)
        except Exception:  # noqa: BLE001 (a value of the user may do anything)
            return describe(value)
        finally:
            self._path.discard(id(value))

    def _container(self, value: Any, kind: type, depth: int) -> Any:
        if kind is dict:
            return self._object(value, depth)
        if kind is list or kind is tuple:
            return self._list(value, depth)
        return self.convert(_simplify(value), depth + 1)

    def _text(self, text: str) -> str:
        if len(text) >= _LONGEST_FILE:
            text = _FILE.sub(lambda file: _cut_text(file[0], 1_000), text)
        if len(text) > _LONGEST_TEXT:
            text = _cut_text(text, _LONGEST_TEXT)
        self._characters -= len(text)
        return text if self._characters >= 0 else _mark("the value is too long")

    def _list(self, value: Any, depth: int) -> list[Any]:
        convert, below = self.convert, depth + 1
        if len(value) > self._left:
            kept = [convert(one, below) for one in value[: max(self._left, 0)]]
            return [*kept, _mark(f"{len(value) - len(kept):,} more")]
        self._left -= len(value)
        return [convert(one, below) for one in value]

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        convert, below = self.convert, depth + 1
        self._left -= len(value)
        if self._left < 0:
            return {"…": _mark("the value has too many parts")}
        for key, one in value.items():
            name = key if type(key) is str else self._name(key, depth)
            while name in found:
                name += "'"
            found[name] = convert(one, below)
        return found

    def _name(self, key: Any, depth: int) -> str:
        plain = self.convert(key, depth + 1)
        return plain if isinstance(plain, str) else encode(plain)


def _whole_number(value: int) -> int | str:
    if value.bit_length() <= _MOST_BITS:
        return value
    return str(value) if value.bit_length() <= _MOST_DECIMAL_BITS else hex(value)


def _simplify(value: Any) -> Any:  # noqa: PLR0911 (one for each kind of value)
    """Return a simpler value with the same content, which may hold values that are not plain yet."""
    kind = type(value)
    # A `str`, `int` or `float` here is of a subclass, such as a member of a StrEnum, and becomes its plain value.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(value))
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return {name: getattr(value, name) for name in kind._fields} if hasattr(kind, "_fields") else list(value)
    if isinstance(value, BaseException):
        return f"{kind.__name__}: {value}"
    if isinstance(value, type) or hasattr(kind, "__code__"):
        return getattr(value, "__qualname__", repr(value))
    return _of_object(value, kind)


def _of_bytes(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        import base64

        return {"bytes": len(raw), "base64": base64.b64encode(raw[:_LONGEST_FILE]).decode()}


def _of_object(value: Any, kind: type) -> Any:  # noqa: C901, PLR0911 (one for each kind of value)
    if _is_of("enum", "Enum", value):
        return value.value
    if _is_message(value, kind):
        return _of_message(value)
    # Look up methods on the class: a mock has each attribute that it is asked for.
    if hasattr(kind, "model_dump"):
        return _dump_model(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__ if hasattr(value, name)}
    if hasattr(kind, "isoformat"):
        return value.isoformat()
    if hasattr(kind, "total_seconds"):
        return value.total_seconds()
    for method in ("tolist", "to_dict", "dict", "_asdict"):
        if callable(getattr(kind, method, None)):
            return getattr(value, method)()
    if hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118 (it may be no Mapping)
    if _is_of("collections", "deque", value):
        return list(value)
    if any(_is_of(*known, value) for known in (("decimal", "Decimal"), ("uuid", "UUID"), ("pathlib", "PurePath"))):
        return str(value)
    attributes = getattr(value, "__dict__", None)
    # Reading an iterator would take its items away from the user.
    if isinstance(attributes, dict) and attributes and not hasattr(kind, "__next__"):
        return {name: one for name, one in attributes.items() if not str(name).startswith("_")} or describe(value)
    return describe(value)


def _is_of(module: str, name: str, value: Any) -> bool:
    """Return whether a value is an instance of a class, without importing its module."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _is_message(value: Any, kind: type) -> bool:
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", None) or vars_of(value)
    return "content" in fields and ("role" in fields or "type" in fields)


def vars_of(value: Any) -> Mapping[str, Any]:
    """Return the attributes of an instance; empty if it has none."""
    found = getattr(value, "__dict__", None)
    return found if isinstance(found, dict) else {}


def _of_message(value: Any) -> dict[str, Any]:
    """Return the parts of a chat message that people read, without the metadata of its library."""
    found: dict[str, Any] = {}
    for name in ("role", "type", "name", "content", "tool_calls", "tool_call_id"):
        one = getattr(value, name, None)
        if one or name == "content":
            found[name] = one
    return found


def _dump_model(value: Any) -> Any:
    try:
        return value.model_dump(mode="json")
    except Exception:  # noqa: BLE001 (`to_plain` converts a field that has no JSON form)
        return value.model_dump()


def describe(value: Any) -> str:
    """Return a text for any value, even if every access to the value raises an error."""
    try:
        return _cut_text(repr(value), 1_000)
    except Exception:  # noqa: BLE001 (a value of the user may do anything)
        return f"<{type(value).__name__}>"


def shorten(plain: Any, most_bytes: int) -> Any:
    """Return a plain value, cut so that its JSON has at most about `most_bytes` bytes.

    Each text, list or object that was cut says so. If the value is still too large, return the beginning of its JSON as
    a text.
    """
    for length in _LENGTHS:
        cut = _cut(plain, length)
        if len(to_bytes(encode(cut))) <= most_bytes:
            return cut
    return _cut_text(encode(cut), max(most_bytes // 6, 0))


def _cut(plain: Any, length: int) -> Any:
    if isinstance(plain, str):
        return _cut_text(plain, length)
    if isinstance(plain, list):
        kept = [_cut(one, length) for one in plain[:length]]
        return kept if len(plain) <= length else [*kept, _mark(f"{len(plain) - length:,} more")]
    if isinstance(plain, dict):
        names = list(plain)[:length]
        found = {_cut_text(name, 256): _cut(plain[name], length) for name in names}
        return found if len(plain) <= length else {**found, "…": _mark(f"{len(plain) - length:,} more")}
    return plain


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… {_mark(f'longer than {length:,} characters')}"
