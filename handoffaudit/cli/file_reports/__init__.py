"""Helpers of `handoffaudit report-file` and `handoffaudit watch`: files, receivers and the follower of a folder."""
