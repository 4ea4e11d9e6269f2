"""Seals of decisions and verdicts, checkpoints of the logs, and evidence bundles."""
