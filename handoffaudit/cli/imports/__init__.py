"""Helpers of `handoffaudit import`: the documents of files, the items, and the receivers."""
