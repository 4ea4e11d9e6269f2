"""JSON documents changed by copy: what is given is never touched, what stays the same is shared."""

from collections.abc import Callable
from typing import Any

from handoffaudit.validation.paths import Location


def placed(document: Any, location: Location, value: Any) -> Any:
    """The document with `value` at `location`. A field may be new; what it stands in must be there."""
    if not location:
        return value

    def put(holder: Any) -> Any:
        key = location[-1]
        if isinstance(holder, dict):
            return {**holder, key: value}
        return [*holder[:key], value, *holder[int(key) + 1 :]]

    return _with_holder(document, location[:-1], put)


def without(document: Any, location: Location) -> Any:
    """The document without the field at `location`, which must be there."""

    def drop(holder: Any) -> Any:
        # a copy and one key less: of a document of a hundred thousand fields many are dropped, one after the other
        rest = dict(holder)
        del rest[location[-1]]
        return rest

    return _with_holder(document, location[:-1], drop)


def renamed(document: Any, location: Location, name: str) -> Any:
    """The document with the field at `location` called `name`, at the place where it stood."""

    old = location[-1]

    def rename(holder: Any) -> Any:
        return {name if key == old else key: value for key, value in holder.items()}

    return _with_holder(document, location[:-1], rename)


def copied(value: Any) -> Any:
    """The value with lists and objects of its own, which may be changed."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def _with_holder(document: Any, location: Location, change: Callable[[Any], Any]) -> Any:
    holders = [document]
    for part in location:
        holders.append(holders[-1][part])
    value = change(holders.pop())
    for part in reversed(location):
        holder = holders.pop()
        if isinstance(holder, dict):
            value = {**holder, part: value}
        else:
            value = [*holder[:part], value, *holder[int(part) + 1 :]]
    return value
