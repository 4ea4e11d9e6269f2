"""Helpers of `handoffaudit eval`: the figures, and the run with an LLM and the user's own key."""
