"""Policies of a tenant, in versions.

There are policies for strictness, business rules, schemas, prompts, routes, roles, alert rules, retention and handoff
files.
"""
