"""Diagnostics of handoffs: findings, traces, agents, handoff files, logs, alerts, LLM health and retention."""
