"""What `handoffaudit up` does: checks, preparation, and child processes that are kept alive."""
