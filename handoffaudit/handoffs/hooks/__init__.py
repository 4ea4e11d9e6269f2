"""Hooks of agent hosts: their events become handoffs, and are answered by the verdicts (`docs/gate.md`)."""
