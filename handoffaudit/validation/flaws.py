"""What is wrong with rules, schemas or claim fields that someone wants to set."""

from dataclasses import dataclass
from typing import Any

from handoffaudit.validation.text import brief, clean


@dataclass(frozen=True, slots=True)
class Flaw:
    """One value that cannot be set: where it stands (`rules[2].threshold`), and what would make it right."""

    place: str
    value: Any
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message} {self.remedy}" if self.place else f"{self.message} {self.remedy}"


def flaw(place: str, value: Any, message: str, remedy: str) -> Flaw:
    """A flaw whose value and texts are cut to size and can be stored."""
    return Flaw(clean(place), brief(value), clean(message, 400), clean(remedy, 400))


class InvalidDemand(ValueError):
    """Rules, a schema or claim fields that cannot be set; `flaws` says why."""

    def __init__(self, flaws: list[Flaw]) -> None:
        super().__init__("; ".join(str(one) for one in flaws))
        self.flaws = flaws
