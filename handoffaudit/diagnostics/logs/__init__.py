"""Uploaded logs: stored as blocks of lines, indexed and counted, searched (`docs/logs.md`)."""
