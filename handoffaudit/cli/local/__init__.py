"""Helpers of the commands that judge files without a server; Django is never loaded."""
