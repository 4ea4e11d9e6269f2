"""The life of a handoff: ingest, judging, review, repair, counts, alerts and webhooks."""
