"""Saved views: filters of a list kept under a name, as tabs above the list."""
