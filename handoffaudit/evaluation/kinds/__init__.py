"""The kinds of labelled data, in one table. A new kind needs one module and one line here."""

from collections.abc import Iterable
from typing import Protocol

from handoffaudit.evaluation.items import Beside, Item, Line
from handoffaudit.evaluation.kinds import grounding, reviews, tasks, tau, whowhen

__all__ = ["KINDS", "Kind", "recognise"]


class Kind(Protocol):
    """A module of this package, which reads the handoffs in one line of its kind of data."""

    @property
    def NAME(self) -> str: ...  # noqa: N802  (a constant of the module)

    def recognise(self, line: Line) -> bool: ...

    def items(self, line: Line, beside: Beside) -> Iterable[Item]:
        """Return the items of a line. Raises `ValueError`, `KeyError` or `TypeError` for a broken line."""
        ...


KINDS: tuple[Kind, ...] = (reviews, grounding, whowhen, tau, tasks)


def recognise(line: Line) -> Kind | None:
    return next((kind for kind in KINDS if kind.recognise(line)), None)
