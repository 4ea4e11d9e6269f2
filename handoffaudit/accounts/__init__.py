"""Accounts: tenants, people and their roles, API keys, one-time links, saved views and the audit log."""
