"""Retention of old data: its kinds, counts of what is stored and what is due, and the run that removes it."""
