"""Helpers of `handoffaudit up`: the preparation, the child processes and their supervisor."""
