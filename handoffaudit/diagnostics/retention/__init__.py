"""Retention of old data: the kinds of data, counts of stored and due data, and the run that removes due data."""
