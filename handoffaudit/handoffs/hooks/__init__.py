"""Hooks of agent hosts: each event becomes a handoff, and the verdict on the handoff answers the event."""
