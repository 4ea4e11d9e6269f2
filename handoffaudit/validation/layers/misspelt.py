"""A field that the sender has probably misspelt, where an optional one is missed that may have any name beside it."""

from difflib import get_close_matches
from itertools import islice

from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.paths import at
from handoffaudit.validation.record import Record

_ALIKE = 0.8
_MOST_LOOKED_AT = 200


def instead_of(record: Record, field: str) -> str | None:
    """The name that stands in place of `field`, beside the chain, where that holds nothing and one is nearly so."""
    beside = at(record.document, (BY_NAME[record.format].PLACES.chain or ())[:-1])
    if not isinstance(beside, dict) or beside.get(field):
        return None
    others = (name for name in islice(beside, _MOST_LOOKED_AT) if name != field and len(name) < 2 * len(field))
    plain = {_plain(name): name for name in others}
    return next((plain[near] for near in get_close_matches(_plain(field), plain, n=1, cutoff=_ALIKE)), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
