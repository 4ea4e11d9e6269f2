"""Trials of drafts on past handoffs."""
