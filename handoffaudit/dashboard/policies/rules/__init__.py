"""Business rules and their sets."""
