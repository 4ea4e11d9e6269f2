"""Findings alike, folded: where they are kept, muted, listed and looked up."""
