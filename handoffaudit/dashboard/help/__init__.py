"""Help: guides by role, every rule code with an example, and the API reference."""
