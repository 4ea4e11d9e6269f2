"""Sample data in a tenant of its own: filled in the background, and removed with everything in it."""
