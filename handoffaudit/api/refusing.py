"""Values that are refused, each told in one form: `field`, `value`, what is wrong (`message`) and what would be right
(`remedy`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
from django.http import HttpRequest

from handoffaudit.accounts.errors import Refused
from handoffaudit.validation.text import shown

MOST: Final = 100
_LONGEST: Final = 200
# What pydantic refuses, by its name for it: what is wrong, and what would be right. `{value}` is what was sent.
_SAID: Final[Mapping[str, tuple[str, str]]] = {
    "missing": ("It is missing.", "Add it."),
    "extra_forbidden": ("There is no such field.", "Leave it out, or mend its name."),
    "string_type": ("{value} is no text.", "Send a text."),
    "string_unicode": ("It holds signs that can't be stored.", "Send valid UTF-8."),
    "string_too_long": ("It is too long.", "Send at most {max_length} characters."),
    "string_too_short": ("It is too short.", "Send {min_length} characters or more."),
    "greater_than_equal": ("{value} is too small.", "Send {ge} or more."),
    "less_than_equal": ("{value} is too large.", "Send {le} or less."),
    "greater_than": ("{value} is too small.", "Send more than {gt}."),
    "less_than": ("{value} is too large.", "Send less than {lt}."),
    "enum": ("{value} is not one of the choices.", "Send {expected}."),
    "literal_error": ("{value} is not one of the choices.", "Send {expected}."),
    "list_type": ("{value} is no list.", "Send a list."),
    "too_long": ("It has too many entries.", "Send at most {max_length}."),
}
# The same of whole families of names.
_KINDS: Final[Mapping[str, str]] = {
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "dict": "object",
    "model": "object",
    "uuid": "id",
    "datetime": "date and time, such as 2026-02-15T00:15:00Z",
    "date": "date, such as 2026-02-15",
}


def refused(field: str, value: Any, message: str, remedy: str, **more: Any) -> dict[str, Any]:
    """One value, cut to size."""
    return {**more, "field": field, "value": _cut(value), "message": message, "remedy": remedy}


def members(errors: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a problem document: `errors`, and beside them the only one's own members."""
    if len(errors) != 1:
        return {"errors": errors}
    return {name: errors[0][name] for name in ("field", "value", "remedy")} | {"errors": errors}


def said(errors: Iterable[Mapping[str, Any]]) -> str:
    """All of them in words, for `detail`."""
    return "; ".join(f"{one['field']}: {one['message']} {one['remedy']}".rstrip() for one in errors)


def of_field(request: HttpRequest, field: str, message: str, remedy: str) -> dict[str, Any]:
    """Members for a refusal of one field of the body."""
    return members([refused(field, _inside(_body(request), (field,)), message, remedy)])


def of_change(request: HttpRequest, error: Refused) -> dict[str, Any]:
    """The same for a change that is not made; none where no field is at fault."""
    if not error.field:
        return {}
    return of_field(request, error.field, f"{error.wrong}.", sentence(error.remedy))


def sentence(text: str) -> str:
    """What stands after a colon elsewhere, by itself."""
    return text[:1].upper() + text[1:]


def of_request(request: HttpRequest, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the reader of a request (ninja, pydantic) found, the first `MOST` of it."""
    body = _body(request) if any(one["loc"][0] == "body" for one in found) else None
    return [_told(request, body, one) for one in found[:MOST]]


def _told(request: HttpRequest, body: Any, one: Mapping[str, Any]) -> dict[str, Any]:
    source, *place = one["loc"]
    # Of a body, without the name that the view has for the whole.
    inside = place[1:] if source == "body" else place
    field = ".".join(str(part) for part in inside) or str(source)
    if source == "body":
        value = _inside(body, inside)
    else:
        given = request.GET if source == "query" else getattr(request.resolver_match, "kwargs", {})
        value = given.get(field)
    message, remedy = _words(str(one["type"]), value, one)
    return refused(field, value, message, remedy)


def _words(kind: str, value: Any, one: Mapping[str, Any]) -> tuple[str, str]:
    message, remedy = _SAID.get(kind, ("", ""))
    if not message:
        wanted = _KINDS.get(kind.partition("_")[0])
        if wanted is None:
            return f"{one['msg']}.", "Send what the reference of the API asks for."
        article = "" if wanted.startswith("true") else "an " if wanted[0] in "aeio" else "a "
        message, remedy = f"{{value}} is not {article}{wanted.partition(',')[0]}.", f"Send {article}{wanted}."
    facts = {name: str(fact).replace("'", "") for name, fact in one.get("ctx", {}).items()}
    return message.format(**facts, value=shown(value)), remedy.format(**facts)


def _body(request: HttpRequest) -> Any:
    try:
        return orjson.loads(request.body)
    except ValueError:
        return None


def _inside(value: Any, place: Sequence[str | int]) -> Any:
    for part in place:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _cut(value: Any) -> Any:
    if isinstance(value, dict | list):
        return shown(value)
    return value if not isinstance(value, str) or len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
