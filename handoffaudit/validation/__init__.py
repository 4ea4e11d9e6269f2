"""The engine: what a handoff is, and how it is judged. Pure: no framework, no network, no clock of its own."""
