"""Who did something to a handoff."""

from dataclasses import dataclass

from handoffaudit.accounts.models import Person
from handoffaudit.handoffs.models import ActorKind


@dataclass(frozen=True, slots=True)
class Actor:
    kind: ActorKind
    name: str

    @classmethod
    def person(cls, person: Person) -> "Actor":
        return cls(ActorKind.PERSON, person.get_username())

    @classmethod
    def key(cls, name: str) -> "Actor":
        return cls(ActorKind.KEY, name)


SYSTEM = Actor(ActorKind.SYSTEM, "handoffaudit")
