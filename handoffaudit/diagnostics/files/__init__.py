"""Reports of handoff files: taken in, found again, and the policy that says what counts as failed."""
