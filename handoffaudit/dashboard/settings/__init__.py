"""The Settings pages: people, API keys, alert rules, webhooks, retention and the audit log."""
