"""The dashboard: the pages that people use to watch handoffs, review them and set policies."""
