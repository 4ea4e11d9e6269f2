"""Business rules: what must hold of the data of a type.

`rules` says what a rule is and has examples, `parser` reads sets of them, `evaluate` holds data against them.
"""
