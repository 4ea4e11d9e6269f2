"""A field that the sender has probably misspelt, where an optional one is missed that may have any name beside it."""

from difflib import get_close_matches
from heapq import nsmallest

from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.paths import at
from handoffaudit.validation.record import Record

_ALIKE = 0.8
_MOST_LOOKED_AT = 200


def instead_of(record: Record, field: str) -> str | None:
    """The name that stands in place of `field`, beside the chain, where that holds nothing and one is nearly so. What
    begins with the field's name and goes on, as `user_approved_by`, is a field of its own."""
    beside = at(record.document, (BY_NAME[record.format].PLACES.chain or ())[:-1])
    if not isinstance(beside, dict) or beside.get(field) not in (None, ""):
        return None
    wanted = _plain(field)
    others = (name for name in beside if name != field and len(name) < 2 * len(field))
    # whatever the order of the keys
    plain = {_plain(name): name for name in nsmallest(_MOST_LOOKED_AT, others)}
    names = [name for name in plain if name == wanted or not name.startswith(wanted)]
    return next((plain[near] for near in get_close_matches(wanted, names, n=1, cutoff=_ALIKE)), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
