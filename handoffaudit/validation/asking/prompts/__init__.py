"""The words that go to a model, as files beside this one; a changed prompt gets a new number."""

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """The text of `<name>.txt`."""
    return (files(__name__) / f"{name}.txt").read_text(encoding="utf-8").strip()
