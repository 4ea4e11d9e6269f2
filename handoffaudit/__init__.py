"""handoffaudit: every handoff between agents, stored, judged and, where need be, decided by a person."""
