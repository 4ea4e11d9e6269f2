"""Prompts of the model, by type or workflow."""
