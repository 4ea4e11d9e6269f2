"""What changed between two versions of the strictness table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from handoffaudit.policy.parsing import to_plain
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, TypePolicy

WHOLE_ROW = "row"


@dataclass(frozen=True, slots=True)
class Change:
    """One value before and after. A row that came or went is one change of the field `row`, None where there was none;
    a layer's switch is the field `layers.<name>`."""

    handoff_type: str
    field: str
    old: Any
    new: Any

    def to_plain(self) -> dict[str, Any]:
        return {"handoff_type": self.handoff_type, "field": self.field, "old": self.old, "new": self.new}


def difference(old: Iterable[TypePolicy], new: Iterable[TypePolicy]) -> list[Change]:
    before = {row.handoff_type: row for row in old}
    after = {row.handoff_type: row for row in new}
    names = sorted(before.keys() | after.keys(), key=lambda name: (name == ANY_OTHER_TYPE, name))
    return [change for name in names for change in _row_changes(name, before.get(name), after.get(name))]


def _row_changes(name: str, old: TypePolicy | None, new: TypePolicy | None) -> list[Change]:
    if old is None or new is None:
        return [Change(name, WHOLE_ROW, to_plain(old) if old else None, to_plain(new) if new else None)]
    before, after = flat(old), flat(new)
    return [Change(name, field, before[field], after[field]) for field in before if before[field] != after[field]]


def flat(row: TypePolicy) -> Mapping[str, Any]:
    """A row's values by field, each layer a field of its own."""
    plain = to_plain(row)
    layers = plain.pop("layers")
    plain.pop("handoff_type")
    return {**plain, **{f"layers.{layer}": layers[layer] for layer in OPTIONAL_LAYERS}}
