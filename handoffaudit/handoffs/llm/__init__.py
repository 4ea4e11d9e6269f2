"""LLM checks of handoffs: the client, its limits, the queue of checks, and their results."""
