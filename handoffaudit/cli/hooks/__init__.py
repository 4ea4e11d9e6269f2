"""What `handoffaudit hook` is made of. It runs on every tool call: little is imported, and Django never."""
