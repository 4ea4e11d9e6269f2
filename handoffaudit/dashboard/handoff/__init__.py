"""One handoff: its page, its document as a tree, its claims, its attempts and what the logs say of it."""
