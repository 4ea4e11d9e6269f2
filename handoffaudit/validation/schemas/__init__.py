"""JSON Schemas of users for the data of single types (`docs/decisions/0015-schemas-of-users.md`).

`schema` compiles a schema and checks data against it, `cost` limits the cost of the check in advance, and `messages`
turns errors into issues.
"""
