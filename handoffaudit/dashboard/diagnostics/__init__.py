"""The Diagnostics pages: reasons, handoff files, compliance, rule codes, alerts, LLM health and logs."""
