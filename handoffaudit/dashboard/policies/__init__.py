"""The Policies pages: what all kinds share, each kind, and dry runs."""
