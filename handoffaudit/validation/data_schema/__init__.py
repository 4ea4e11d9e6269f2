"""JSON Schemas of users for the data of single types (`docs/decisions/0015-schemas-of-users.md`).

`schema` compiles one and holds data against it, `cost` bounds it beforehand, `wording` says what an error means.
"""

from handoffaudit.validation.data_schema.schema import DataSchema, moved

__all__ = ["DataSchema", "moved"]
