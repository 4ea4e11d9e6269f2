"""JSON Schemas of users for the data of single types (`docs/decisions/0015-schemas-of-users.md`).

`schema` compiles one and holds data against it, `cost` bounds it beforehand, `messages` says what an error means.
"""
