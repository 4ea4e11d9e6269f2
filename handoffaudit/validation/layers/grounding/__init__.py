"""Concrete values and wording of the claims, looked up in the context and the evidence."""
