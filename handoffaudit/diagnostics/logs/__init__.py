"""Uploaded logs: the storage of their lines as blocks, indexing and counting, and search (`docs/logs.md`)."""
