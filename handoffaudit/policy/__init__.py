"""Policies of a tenant, in versions: strictness, business rules, schemas, prompts, agents, alert rules, retention."""
