"""handoffaudit stores and validates every handoff between agents and lets people decide where needed."""
