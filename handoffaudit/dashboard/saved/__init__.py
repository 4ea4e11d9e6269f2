"""Filters of a list kept under a name, as tabs above it."""
