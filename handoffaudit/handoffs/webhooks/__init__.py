"""Webhooks: the delivery of events to URLs by signed requests, to chats, and to people by e-mail."""
