"""Helpers of `handoffaudit hook`, which runs on every tool call: imports are few, and Django is never loaded."""
