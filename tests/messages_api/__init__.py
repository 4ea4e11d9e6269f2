"""A Messages API server on loopback for tests and for development; the real SDK talks to it."""
