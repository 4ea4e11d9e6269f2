"""The delegation gate: hook events of an agent host become handoffs, and what came back is held against what was asked
for (`docs/gate.md`)."""
