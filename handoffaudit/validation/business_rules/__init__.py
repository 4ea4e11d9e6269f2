"""Business rules: requirements on the data of a handoff type.

`rules` defines a rule and ships examples, `parser` reads sets of rules, and `evaluate` checks data against them.
"""
