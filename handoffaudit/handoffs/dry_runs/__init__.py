"""Dry runs: policies and prompts evaluated on past handoffs without saving."""
