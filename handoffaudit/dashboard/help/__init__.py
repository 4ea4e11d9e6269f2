"""Help: guides by role, every code with an example, the API's reference."""
