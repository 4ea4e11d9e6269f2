"""Compare what the product shows to the outside with the committed snapshots of it."""

import difflib
import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = "UPDATE_SURFACE"


def check(name: str, found: Any) -> None:
    """Fail where `found`, a JSON value, differs from the snapshot `name`; with `UPDATE_SURFACE=1` store it instead."""
    path = FOLDER / f"{name}.json"
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False, default=str) + "\n"
    if os.environ.get(UPDATE):
        path.write_text(text)
        return
    kept = path.read_text() if path.exists() else ""
    if text == kept:
        return
    difference = "\n".join(
        difflib.unified_diff(kept.splitlines(), text.splitlines(), f"snapshots/{path.name}", "now", lineterm="")
    )
    raise AssertionError(
        f"The public surface changed: {name}.\n\n{difference}\n\n"
        "People and programs depend on the lines with a minus. Where the change is meant, name it in CHANGELOG.md,"
        f" run `{UPDATE}=1 pytest tests/surface` and commit the new snapshot."
    )


def shape(value: Any, literal: tuple[str, ...] = ()) -> Any:
    """Return the keys and types of a JSON value, recursively.

    The items of a list become one shape. The values of the keys in `literal` are kept as they are.
    """
    if isinstance(value, dict):
        return {
            str(key): one if key in literal and isinstance(one, str) else shape(one, literal)
            for key, one in value.items()
        }
    if isinstance(value, list):
        items: Any = None
        for one in value:
            items = merge(items, shape(one, literal))
        return [] if items is None else [items]
    return {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}[type(value)]


def merge(first: Any, second: Any) -> Any:
    """Return the shape that covers both; a key that only one of them has is kept."""
    if first is None or first == second:
        return second
    if _is_choice(first) or _is_choice(second):
        return _choice(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return {key: merge(first.get(key), second.get(key)) if key in second else first[key] for key in first | second}
    if isinstance(first, list) and isinstance(second, list):
        return [merge(first[0], second[0])] if first and second else first or second
    return _choice(first, second)


def _choice(first: Any, second: Any) -> Any:
    """Return one shape of each kind: texts each by itself, all objects as one, all lists as one."""
    parts: list[Any] = []
    for part in (part for one in (first, second) for part in (one["any of"] if _is_choice(one) else [one])):
        alike = (n for n, one in enumerate(parts) if isinstance(part, dict | list) and type(one) is type(part))
        place = next(alike, None)
        if place is not None:
            parts[place] = merge(parts[place], part)
        elif part not in parts:
            parts.append(part)
    return parts[0] if len(parts) == 1 else {"any of": sorted(parts, key=str)}


def _is_choice(one: Any) -> bool:
    return isinstance(one, dict) and set(one) == {"any of"}
