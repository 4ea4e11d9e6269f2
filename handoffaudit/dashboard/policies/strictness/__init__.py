"""The strictness table."""
