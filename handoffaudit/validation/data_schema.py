"""A JSON Schema of a user: compiled, and bounded in what it may cost."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DataSchema:
    """A JSON Schema (draft 2020-12) that the data of a type must keep to."""

    source: dict[str, Any]
