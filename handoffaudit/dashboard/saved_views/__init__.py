"""Saved views: filters of a list saved under a name, shown as tabs above the list."""
