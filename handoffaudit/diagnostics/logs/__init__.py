"""Logs that are sent in: stored as blocks of lines, read and counted, searched (`docs/logs.md`)."""
