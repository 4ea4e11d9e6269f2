"""The human review of blocked handoffs: queue, decisions, proposals, assignments, bulk decisions and undo."""
