"""What a person has typed into an editor of a policy: a draft, before it is saved or tried."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import orjson
from django.http import QueryDict

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.policies.fields import Choices
from handoffaudit.dashboard.policies.trials.scopes import SCOPES, USUAL
from handoffaudit.dashboard.policies.words import Line, place
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import MOST_BYTES
from handoffaudit.policy.versions import Table

R = TypeVar("R")

MOST_DIGITS = 9
# More than may be saved, so that what is too long is refused and not cut; and no page grows with what was sent.
LONGEST_KEPT = 4 * MOST_BYTES
LONGEST_LINE = 10_000


@dataclass(kw_only=True)
class Draft(ABC, Generic[R]):
    """`base_version`: the table that the change is made on. `tried` and `types`: on what it is to be tried.

    `errors`: by field, "" what is wrong with the whole. `theirs`: lines of what somebody else saved meanwhile against
    what stands here; None where nobody did. `gone`: they deleted it. `noun`: what is edited.
    """

    base_version: int
    note: str = ""
    tried: str = USUAL
    types: str = ""
    noun: ClassVar[str] = "row"
    can_be_tried: ClassVar[bool] = True
    offers_types: ClassVar[bool] = False
    errors: dict[str, str] = field(default_factory=dict)
    theirs: list[Line] | None = None
    gone: bool = False

    @abstractmethod
    def rows(self, now: Table[R]) -> Iterable[R]:
        """All rows, with this change made. Raises `InvalidPolicy`."""

    @abstractmethod
    def refuse(self, invalid: InvalidPolicy) -> None:
        """Keeps what is wrong, at its field."""

    @abstractmethod
    def meet(self, current: Table[R]) -> None:
        """Somebody saved meanwhile: show both, and let a second save be made on the new version."""

    @abstractmethod
    def touched(self, tenant: Tenant, now: Table[R], rows: Iterable[R]) -> list[str]:
        """The handoff types that are judged otherwise where the table `now` becomes `rows`; none named: all."""

    def holds_back(self, trial: Trial) -> bool:
        """Whether a planned trial of it does not begin yet; the draft then says why. Raises `InvalidPolicy`."""
        return False

    @property
    @abstractmethod
    def gone_text(self) -> str:
        """What is said where it is gone."""

    @property
    def scopes(self) -> Choices:
        """On which handoffs it can be tried."""
        return [(value, scope.words) for value, scope in SCOPES.items()]

    @property
    def row_error(self) -> str:
        return self.errors.get("", "")

    def keep(self, name: str, error: PolicyError, where: str = "") -> None:
        """The error at the field of that name; `where` in the field it is."""
        text = f"{error.message} {error.remedy}"
        self.errors.setdefault(name, f"{place(where)}: {text}" if where else text)


def number(text: str) -> int | None:
    """A version's number out of an address or a form."""
    digits = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    return int(text) if digits else None


def sent(given: QueryDict) -> dict[str, Any]:
    """What every editor sends: on which version, and the note."""
    base = number(given.get("base_version", ""))
    return {
        "base_version": -1 if base is None else base,
        "note": line_of(given, "note"),
        "tried": line_of(given, "tried") or USUAL,
        "types": line_of(given, "types"),
    }


def text_of(given: QueryDict, name: str) -> str:
    """A long field's text with plain line ends, as much of it as can be shown again."""
    return given.get(name, "")[:LONGEST_KEPT].replace("\r\n", "\n")


def line_of(given: QueryDict, name: str) -> str:
    """The same of a field of one line."""
    return given.get(name, "")[:LONGEST_LINE]


def lines_of(text: str) -> list[str]:
    """What stands in its lines, without the empty ones."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def read_json(text: str) -> Any:
    """Raises ValueError, which tells the line and the column."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"This is no JSON: line {error.lineno}, column {error.colno}, {error.msg}.") from error
