"""Webhooks: the delivery of events to URLs by signed requests, and to people by e-mail."""
