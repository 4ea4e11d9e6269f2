"""Webhooks: events delivered to URLs by signed requests, and to people by e-mail."""
