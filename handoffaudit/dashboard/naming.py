"""Reasons by what people call them: the title that is shown, or the code, in any case."""

from collections.abc import Iterable

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs import stats
from handoffaudit.validation.codes import CATALOGUE


def names_of(code: str) -> tuple[str, str]:
    """What a code is called, in small letters: itself and its title."""
    return code.casefold(), code_title(code).casefold()


def code_named(tenant: Tenant, text: str) -> str:
    """The code that somebody means by the text; empty where it names none."""
    wanted = " ".join(text.casefold().split())
    if not wanted:
        return ""
    # Only what a code was made for stands behind a colon: `Breaks a business rule: total`.
    made = stats.list_known_values(tenant).codes if ":" in wanted else ()
    return _first(wanted, CATALOGUE) or _first(wanted, made)


def _first(wanted: str, codes: Iterable[str]) -> str:
    return next((code for code in codes if wanted in names_of(code)), "")
