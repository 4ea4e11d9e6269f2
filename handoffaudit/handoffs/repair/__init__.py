"""Repair of rejected handoffs: candidates, their verdicts, and their storage as new attempts."""
