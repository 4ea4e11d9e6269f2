"""What is removed once it is old: how much there is, what would go, and the run that takes it."""
