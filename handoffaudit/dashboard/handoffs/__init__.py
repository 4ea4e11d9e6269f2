"""The Handoffs pages: the list, one handoff, its document, its claims and its attempts."""
