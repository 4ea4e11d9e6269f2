"""Regular expressions with possessive quantifiers, also for Python 3.10, which has none."""

from __future__ import annotations

import re
import sys

_POSSESSIVE = re.compile(r"([*}])\+")


def compile_pattern(
    pattern: str, flags: int = 0, *, version: tuple[int, ...] = sys.version_info[:2]
) -> re.Pattern[str]:
    """Return the compiled pattern. Before Python 3.11, quantifiers are greedy in place of possessive.

    A greedy quantifier finds the same secrets; only a hostile text takes longer.
    """
    return re.compile(pattern if version >= (3, 11) else _POSSESSIVE.sub(r"\1", pattern), flags)
