"""Logs: the parsing, writing and counting of log lines, and the cutting of a log into blocks (`docs/logs.md`)."""
