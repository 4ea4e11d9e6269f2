"""Secrets taken out of what goes to a model: by the name of their field, and by the look of their text."""

import re
from typing import Any

MASKED = "[masked]"

# what a name ends with once its separators are gone: `OPENAI_API_KEY`, `clientSecret`, `access-token`
_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secretkey",
    "apikey",
    "accesskey",
    "privatekey",
    "token",
    "authorization",
    "credentials",
    "cookie",
)
_SEPARATORS = str.maketrans("", "", "_- .")
_LONGEST_NAME = 100
# each begins with a fixed text and has bounded repeats that do not go back: linear in the text
_TEXTS = re.compile(
    r"""-----BEGIN[ ][A-Z ]{0,30}PRIVATE[ ]KEY-----[^-]{0,10000}+(?:-----END[ ][A-Z ]{0,30}PRIVATE[ ]KEY-----)?
    | \beyJ[\w-]{8,300}+\.eyJ[\w-]{8,4000}+\.[\w-]{0,2000}
    | \b(?:sk|pk|rk)-[\w-]{16,300}
    | \b(?:sk|rk)_live_\w{10,300}
    | \bgh[pousr]_\w{20,300} | \bgithub_pat_\w{20,300} | \bglpat-[\w-]{16,300}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bAIza[\w-]{30,60}
    | \bxox[abprs]-[\w-]{10,300}
    | (?<=Bearer[ ])[\w.~+/=-]{16,4000}
    | (?<=://)[^\s/:@]{1,100}+:[^\s/@]{1,200}+(?=@)
    """,
    re.VERBOSE,
)


def masked(value: Any) -> Any:
    """A copy of a JSON value without its secrets. Numbers are left: a count of tokens is no secret."""
    match value:
        case dict():
            return {key: MASKED if _is_secret(key, one) else masked(one) for key, one in value.items()}
        case list():
            return [masked(one) for one in value]
        case str():
            return _TEXTS.sub(MASKED, value)
        case _:
            return value


def _is_secret(name: str, value: Any) -> bool:
    if not isinstance(value, str) or not value or len(name) > _LONGEST_NAME:
        return False
    return name.lower().translate(_SEPARATORS).endswith(_NAMES)
