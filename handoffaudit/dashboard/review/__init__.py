"""The Review pages: the queue, one handoff with its decision box, and decisions on one or several handoffs."""
