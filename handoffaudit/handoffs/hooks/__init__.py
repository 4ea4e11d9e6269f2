"""Hooks of agent hosts: each event becomes a handoff, and its verdict answers the event (`docs/gate.md`)."""
