"""Schemas by type, and which fields are claims."""
