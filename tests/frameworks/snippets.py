"""Snippets in the documentation of the plug-ins."""

import textwrap
from types import ModuleType


def snippet_of(module: ModuleType) -> str:
    """Return the indented lines of a module's documentation, which are a program. Raises `ValueError` without them."""
    text = module.__doc__ or ""
    begin = text.index("\n    ")
    return textwrap.dedent(text[begin : text.index("\n\nThe address", begin)])
